"""Tabular Q-learning with a command line of its own and no wrappers at all."""

import argparse

import gymnasium as gym
import numpy as np

from sample_factory.benchmark import report

SEED = 7


def main(env="FrozenLake-v1"):
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=10)
    args = parser.parse_args()
    env = gym.make(env, is_slippery=False)
    table = np.zeros((env.observation_space.n, env.action_space.n))
    generator = np.random.default_rng(SEED)

    def policy(obs):
        return int(table[obs].argmax())

    for episode in range(args.episodes):
        obs, _ = env.reset(seed=SEED + episode)
        done = False
        while not done:
            action = int(generator.integers(env.action_space.n)) if generator.random() < 0.5 else policy(obs)
            following, reward, terminated, truncated, _ = env.step(action)
            target = reward + 0.9 * table[following].max() * (not terminated)
            table[obs, action] += 0.5 * (target - table[obs, action])
            obs, done = following, terminated or truncated
        report(greedy_value=table[0].max())
    return {"value": table[0].max()}

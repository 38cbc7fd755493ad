"""Returns from the middle of main, which code run at module level could not."""

import gymnasium as gym
import numpy as np
import torch

SEED = 0


def main(env="CartPole-v1"):
    env = gym.make(env)
    actor = torch.nn.Linear(4, 2)  # noqa: F841 - the benchmark finds it by its name
    np_weights = np.ones(4)
    for episode in range(100):
        env.reset(seed=SEED + episode)
        done = False
        while not done:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            done = terminated or truncated
        if episode == 2:
            return np_weights
    raise AssertionError("never gets here")

"""Fails after it has learned something."""

import gymnasium as gym
import torch


def main(env="CartPole-v1"):
    model = torch.nn.Linear(2, 1)  # noqa: F841 - the benchmark finds it by its name
    env = gym.make(env)
    env.reset(seed=0)
    env.step(0)
    print("about to divide")
    return 1 / 0  # line 13 of this file: the traceback must say so

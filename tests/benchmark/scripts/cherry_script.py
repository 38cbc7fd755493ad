"""A script as cherry's examples are written: a Logger, a Runner, get_action and SEED."""

import random

import gymnasium as gym
import numpy as np
import torch
from cherry_like import Runner, VerboseLogger

SEED = 1
AT_IMPORT = (random.random(), float(np.random.rand()), float(torch.rand(())))


class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, obs):
        return self.layer(obs)


def main(
    env="CartPole-v1",
):
    """Trains.

    Not at all, in truth: what matters is what it leaves behind.
    """
    env = gym.make(env)
    env.reset(seed=SEED)
    env = VerboseLogger(env)
    env = Runner(env)
    policy = Policy()
    agent = "not callable, so nobody to act"

    def get_action(obs):
        return int(policy(torch.as_tensor(obs)).argmax())

    for update in range(5):
        env.run(get_action, steps=30)
        env.env.log("loss", 1.0 / (1 + update))
    text = """
flush left, which cutting four characters from each line would break
"""
    return {"updates": 5, "text": text, "agent": agent}


if __name__ == "__main__":
    raise AssertionError("the benchmark calls main, nothing else")

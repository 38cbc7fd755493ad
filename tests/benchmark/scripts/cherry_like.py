"""The two wrappers of cherry that scripts of its kind use: a Logger and a Runner."""

import gymnasium
import numpy as np


class Replay:
    def __init__(self):
        self.rewards = []

    def reward(self):
        return np.array(self.rewards)


class Logger(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        self.num_steps = 0
        self.values = {}

    def step(self, action):
        self.num_steps += 1
        return self.env.step(action)

    def log(self, key, value):
        self.values.setdefault(key, []).append(value)


class VerboseLogger(Logger):
    def log(self, key, value):
        super().log(key, value)


class Runner(gymnasium.Wrapper):
    """Collects steps or episodes with a function that acts; goes on with an episode where it stopped."""

    def __init__(self, env):
        super().__init__(env)
        self.obs = None

    def reset(self, **kwargs):
        self.obs, info = self.env.reset(**kwargs)
        return self.obs, info

    def run(self, act, steps=None, episodes=None):
        replay, ended = Replay(), 0
        while (steps is None or len(replay.rewards) < steps) and (episodes is None or ended < episodes):
            if self.obs is None:
                self.reset()
            self.obs, reward, terminated, truncated, _ = self.env.step(act(self.obs))
            replay.rewards.append(reward)
            if terminated or truncated:
                ended += 1
                self.obs = None
        return replay

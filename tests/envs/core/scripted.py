"""An environment that plays a script, so that wrappers can be checked against literal frames."""

import gymnasium
import numpy as np
from gymnasium import spaces


class ScriptedEnv(gymnasium.Env):
    """Shows `frames` one after the other; step i (from 1) rewards i and terminates at `terminate_at`."""

    def __init__(self, frames, terminate_at=None, key=None, frames_per_step=None):
        self.frames = [np.asarray(frame) for frame in frames]
        first = self.frames[0]
        high = 255 if first.dtype == np.uint8 else 1000
        box = spaces.Box(0, high, first.shape, first.dtype.type)
        self.key = key
        self.observation_space = spaces.Dict({key: box, "other": box}) if key else box
        self.action_space = spaces.Discrete(5)
        self.terminate_at = terminate_at
        self.frames_per_step = frames_per_step
        self.index = 0
        self.actions = []
        self.resets = 0

    def reset(self, *, seed=None, options=None):
        self.index = 0
        self.resets += 1
        return self._obs(), {}

    def step(self, action):
        self.index += 1
        self.actions.append(action)
        info = {} if self.frames_per_step is None else {"num_frames": self.frames_per_step}
        return self._obs(), float(self.index), self.index == self.terminate_at, False, info

    def _obs(self):
        frame = self.frames[min(self.index, len(self.frames) - 1)]
        return {self.key: frame, "other": frame} if self.key else frame


def counted_vectors(count):
    """Vectors [0], [1], [2], ..."""
    return [np.array([i], dtype=np.float32) for i in range(count)]

"""The environment of the made-up experiment; a module of its own so that everyone imports the same class."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces


class PayingEnv(gymnasium.Env):
    """Pays the number of the action; observes and renders, in gray, how far the episode is."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 20}
    observation_space = spaces.Box(0, 255, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, length: int = 6, frameskip: int = 1, render_mode: str | None = None) -> None:
        self.length, self.frameskip, self.render_mode = length, frameskip, render_mode
        self.tick = 0
        self.actions: list[tuple[int, int]] = []  # (tick, action)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.tick = 0
        return self._obs(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        frames = min(self.frameskip, self.length - self.tick)
        self.actions.append((self.tick, int(action)))
        self.tick += frames
        done = self.tick >= self.length
        info = {"num_frames": frames} | ({"true_reward": 10.0 * self.tick} if done else {})
        return self._obs(), float(action) * frames, done, False, info

    def render(self) -> np.ndarray:
        return np.full((60, 80, 3), 10 * self.tick, np.uint8)

    def _obs(self) -> np.ndarray:
        return np.array([self.tick], np.float32)


MADE: list[PayingEnv] = []


def make_paying_env(
    full_env_name: str, cfg: Any = None, env_config: Any = None, render_mode: Any = None
) -> Any:
    env = PayingEnv(frameskip=cfg.env_frameskip or 1, render_mode=render_mode)
    MADE.append(env)
    return env

"""A NetHack task seen as a small picture of the map, the status line and the message.

Used by the NetHack family.
Invariant: the same seed gives the same dungeon, except in the challenge, which refuses seeds.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import nle  # noqa: F401 (registers the tasks)
import numpy as np

KEYS = ("chars", "colors", "blstats", "message")
MAP_SHAPE = (2, 21, 79)  # characters and colours
STATUS_SIZE = 27
MESSAGE_SIZE = 256


class NetHackEnv(gym.Wrapper):
    """Observes `obs` (map, bytes), `blstats` (status, logarithmic) and `message` (characters from 0 to 1)."""

    def __init__(self, env_id: str, render_mode: str | None) -> None:
        made = gym.make(
            env_id,
            disable_env_checker=True,
            observation_keys=KEYS,
            render_mode="pixel" if render_mode == "rgb_array" else render_mode,
        )
        super().__init__(made.unwrapped)
        self._may_seed = "Challenge" not in env_id
        self.observation_space = gym.spaces.Dict(
            {
                "obs": gym.spaces.Box(0, 255, MAP_SHAPE, np.uint8),
                "blstats": gym.spaces.Box(-np.inf, np.inf, (STATUS_SIZE,), np.float32),
                "message": gym.spaces.Box(0.0, 1.0, (MESSAGE_SIZE,), np.float32),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Enters a new dungeon."""
        if seed is not None and self._may_seed:
            task: Any = self.env
            task.seed(core=seed, disp=seed, reseed=False)
        obs, _ = self.env.reset()
        return _seen(obs), {}

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Presses one key."""
        obs, reward, terminated, truncated, _ = self.env.step(int(action))
        return _seen(obs), float(reward), bool(terminated), bool(truncated), {}


def _seen(obs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    status = obs["blstats"].astype(np.float32)
    return {
        "obs": np.stack((obs["chars"], obs["colors"])),
        "blstats": np.sign(status) * np.log1p(np.abs(status)),
        "message": obs["message"].astype(np.float32) / 255.0,
    }

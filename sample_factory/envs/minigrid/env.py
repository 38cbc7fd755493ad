"""A MiniGrid world whose observation is the agent's view as a small image.

Used by the MiniGrid family.
Invariant: `obs` is 3x7x7 bytes (object, colour, state of each cell), or as one-hot 20x7x7, channels first.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import minigrid
import numpy as np
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX

PLANES_PER_NUMBER = (len(OBJECT_TO_IDX), len(COLOR_TO_IDX), len(STATE_TO_IDX))


class MiniGridEnv(gym.Wrapper):
    """Renames `image` to `obs`, leaves the mission text out, and keeps `direction` if asked to."""

    def __init__(
        self, env: gym.Env, with_direction: bool, channels_last: bool = False, one_hot: bool = False
    ) -> None:
        super().__init__(env)
        assert isinstance(env.observation_space, gym.spaces.Dict)
        image = env.observation_space["image"]
        assert isinstance(image, gym.spaces.Box)
        self._with_direction = with_direction
        self._axes = (0, 1, 2) if channels_last else (2, 0, 1)
        self._one_hot = one_hot
        channels = sum(PLANES_PER_NUMBER) if one_hot else image.shape[2]
        sizes = (*image.shape[:2], channels)
        shape = tuple(sizes[axis] for axis in self._axes)
        highest = 1 if one_hot else 255
        spaces: dict[str, gym.Space[Any]] = {"obs": gym.spaces.Box(0, highest, shape, np.uint8)}
        if with_direction:
            spaces["direction"] = gym.spaces.Box(0.0, 1.0, (4,), np.float32)
        self.observation_space = gym.spaces.Dict(spaces)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Builds a new grid."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._view(obs), info

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], Any, bool, bool, dict[str, Any]]:
        """Moves the agent once."""
        obs, reward, terminated, truncated, info = self.env.step(int(action))
        return self._view(obs), reward, terminated, truncated, info

    def _view(self, obs: dict[str, Any]) -> dict[str, np.ndarray]:
        image = one_hot_planes(obs["image"]) if self._one_hot else obs["image"]
        view = {"obs": image.transpose(self._axes)}
        if self._with_direction:
            view["direction"] = np.zeros(4, np.float32)
            view["direction"][obs["direction"]] = 1.0
        return view


def one_hot_planes(image: np.ndarray) -> np.ndarray:
    """A plane for every object, colour and state: that a ball's number follows a key's means nothing."""
    numbers = range(len(PLANES_PER_NUMBER))
    planes = [np.eye(PLANES_PER_NUMBER[number], dtype=np.uint8)[image[..., number]] for number in numbers]
    return np.concatenate(planes, axis=-1)


def make_grid(env_id: str, render_mode: str | None) -> gym.Env:
    """A MiniGrid world by its gymnasium id, without gymnasium's layers; it ends its episodes itself."""
    gym.register_envs(minigrid)
    return gym.make(env_id, render_mode=render_mode, disable_env_checker=True).unwrapped

"""A task of the DeepMind Control Suite as a gymnasium environment that observes one vector.

Used by the dm_control family.
Invariant: the vector holds the task's observations in the order of its specification.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np

PICTURE_SIDE = 480


def suite_tasks() -> list[tuple[str, str]]:
    """Every (domain, task) of the suite."""
    return list(_suite().ALL_TASKS)


def _suite() -> ModuleType:
    if not os.environ.get("DISPLAY"):
        # dm_control chooses how to draw while it is imported, also when nothing is drawn.
        os.environ.setdefault("MUJOCO_GL", "egl")
    from dm_control import suite

    return suite


class ControlSuiteEnv(gym.Env[np.ndarray, np.ndarray]):
    """One task; running out of time is a truncation, failing is a termination."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, domain: str, task: str, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._suite = _suite()
        self._names = (domain, task)
        self._task = self._suite.load(domain, task)
        actions = self._task.action_spec()
        self._low, self._high = actions.minimum, actions.maximum
        self.action_space = gym.spaces.Box(
            self._low.astype(np.float32), self._high.astype(np.float32), dtype=np.float32
        )
        size = sum(int(np.prod(spec.shape)) for spec in self._task.observation_spec().values())
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode; a seed makes the task anew, since tasks take theirs when made."""
        super().reset(seed=seed)
        if seed is not None:
            self._task.close()
            self._task = self._suite.load(*self._names, task_kwargs={"random": seed % 2**32})
        return self._vector(self._task.reset().observation), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Applies the nearest action within bounds for one control step."""
        bounded = np.minimum(np.maximum(action, self._low), self._high)
        step = self._task.step(bounded)
        terminated = step.last() and step.discount == 0.0
        truncated = step.last() and not terminated
        return self._vector(step.observation), float(step.reward), bool(terminated), bool(truncated), {}

    def render(self) -> Any:
        """A square picture from the task's first camera."""
        if self.render_mode != "rgb_array":
            return None
        return self._task.physics.render(height=PICTURE_SIDE, width=PICTURE_SIDE, camera_id=0)

    def close(self) -> None:
        """Frees the simulation."""
        self._task.close()

    def _vector(self, observation: dict[str, Any]) -> np.ndarray:
        return np.concatenate([np.ravel(value) for value in observation.values()], dtype=np.float32)

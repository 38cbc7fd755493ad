"""Gymnasium's planar runners (cheetah, hopper, walker) stepped without the layers around the simulator.

Used by the MuJoCo family. A third of such a step is Python: layers, copies, a dictionary of remarks. Here the
simulator's own arrays are read and written in place.
Invariant: observations, rewards and ends are those of gymnasium's task, bit for bit; only `info` stays empty.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import mujoco
import numpy as np

PLANAR_TASKS = ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5")


class PlanarLocomotion(gymnasium.Wrapper):
    """One task with bounded actions and a time limit; the task itself resets and draws."""

    def __init__(self, task: Any, time_limit: int) -> None:
        super().__init__(task)
        self._task = task
        self._model, self._data, self._substeps = task.model, task.data, task.frame_skip
        self._ctrl, self._qpos, self._qvel = task.data.ctrl, task.data.qpos, task.data.qvel
        self._seconds = task.dt
        self._forward_weight, self._ctrl_weight = task._forward_reward_weight, task._ctrl_cost_weight
        self._low, self._high = task.action_space.low, task.action_space.high
        self._skipped = task.observation_structure["skipped_qpos"]
        self._positions = task.observation_structure["qpos"]
        self._obs_size = task.observation_space.shape[0]
        self._can_fall = hasattr(task, "is_healthy")
        self._time_limit = time_limit
        self._elapsed = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Stands the body up anew."""
        self._elapsed = 0
        return self._task.reset(seed=seed, options=options)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Drives the joints for one time step."""
        action = np.minimum(np.maximum(action, self._low), self._high)
        qpos = self._qpos
        before = qpos[0]
        self._ctrl[:] = action
        mujoco.mj_step(self._model, self._data, nstep=self._substeps)
        velocity = (qpos[0] - before) / self._seconds
        obs = np.empty(self._obs_size)
        obs[: self._positions] = qpos[self._skipped :]
        reward, terminated = self._forward_weight * velocity, False
        if self._can_fall:
            np.clip(self._qvel, -10.0, 10.0, out=obs[self._positions :])
            reward = reward + self._task.healthy_reward
            terminated = self._task._terminate_when_unhealthy and not self._task.is_healthy
        else:
            obs[self._positions :] = self._qvel
        reward = reward - self._ctrl_weight * np.add.reduce(action * action)
        self._elapsed += 1
        return obs, reward, terminated, self._elapsed >= self._time_limit, {}

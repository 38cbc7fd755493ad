"""The side-by-side workloads on EnvPool's simulators, with the options its own runner has.

`peer_runner --engine envpool` registers them in place of the shared Python environments. Steps are counted
per pool, as EnvPool's own runner counts them: every copy, every call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from sample_factory.envs.batched import BatchedStep, FirstOfBatch
from sample_factory.envs.envpool.env import EnvPoolBatchedEnv, PoolOptions
from sample_factory.envs.registry import EnvFamily, register_family

_PICTURES = {"frame_skip": 4, "stack_num": 4, "img_height": 84, "img_width": 84, "gray_scale": True}
_TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "cartpole": ("CartPole-v1", {}),
    "halfcheetah": ("HalfCheetah-v4", {}),
    "pong": (
        "Pong-v5",
        _PICTURES | {"reward_clip": True, "episodic_life": False, "repeat_action_probability": 0.0},
    ),
    "doom_basic": (
        "Basic-v1",
        {
            "frame_skip": 4,
            "stack_num": 1,
            "img_height": 72,
            "img_width": 128,
            "use_inter_area_resize": False,
        },
    ),
}
_BUTTONS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float64)


class CountedPool(EnvPoolBatchedEnv):
    """A pool that tells the harness of its steps, and presses one Doom button at a time."""

    def __init__(self, options: PoolOptions) -> None:
        from envs import Counter

        super().__init__(options)
        self._counter = Counter()
        self._buttons = _BUTTONS if options.task_id == "Basic-v1" else None
        if self._buttons is not None:
            self.action_space = spaces.Discrete(len(self._buttons))

    def step(self, actions: np.ndarray) -> BatchedStep:
        """See `BatchedEnv`."""
        self._counter.i[0] += self.num_envs
        if self._buttons is not None:
            actions = self._buttons[actions.reshape(-1).astype(np.int64)]
        return super().step(actions)


def make_pool(name: str, cfg: Any, num_envs: int) -> CountedPool:
    """`num_envs` copies of a workload."""
    task_id, kwargs = _TASKS[name]
    options = PoolOptions(
        task_id,
        num_envs,
        frames_per_step=kwargs.get("frame_skip", 1),
        kwargs=kwargs,
        litters=name.startswith("doom"),
    )
    return CountedPool(options)


def make_one(name: str, cfg: Any, env_config: Any = None, render_mode: str | None = None) -> Any:
    """One copy, for reading its spaces."""
    return FirstOfBatch(make_pool(name, cfg, 1), render_mode)


def register(workload: str) -> None:
    """Makes `--env=<workload>` mean EnvPool's simulator."""
    register_family(EnvFamily(prefix=workload, make_env=make_one, make_vector_env=make_pool))

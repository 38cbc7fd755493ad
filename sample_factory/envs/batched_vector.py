"""A vector that hands the whole batch to one vectorised environment, without a loop in Python.

See `vector` for the interface and `batched` for the environments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sample_factory.envs.batched import BatchedEnv
from sample_factory.envs.vector import EpisodeSums, ObsRows, VectorStep


class BatchedVector:
    """One vectorised environment that steps all its copies in one call and resets them one step later."""

    agents_per_env = 1

    def __init__(self, env: BatchedEnv, seed: int, bootstrap_time_outs: bool = True):
        self.env = env
        self.num_agents = env.num_envs
        self.training_frames = 0
        self._seed = seed
        self._bootstrap_time_outs = bootstrap_time_outs
        self._step = VectorStep.empty(self.num_agents)
        self._sums = EpisodeSums.zeros(self.num_agents)

    def reset(self, rows: ObsRows) -> None:
        """See `EnvVector`."""
        rows.write_batch(0, self.env.reset(self._seed))

    def step(self, actions: Any, rows: ObsRows, row: int) -> VectorStep:
        """See `EnvVector`."""
        step = self._step
        step.clear()
        result = self.env.step(np.asarray(actions))
        rows.write_batch(row, result.obs)
        step.rewards[:] = result.rewards
        step.frames[:] = result.frames
        step.dones[:] = result.terminated | result.resets
        if not self._bootstrap_time_outs:
            step.dones |= result.truncated
        step.valids[:] = ~result.resets
        step.rewards[result.resets] = 0.0
        step.frames[result.resets] = 0
        self._sums.rewards += step.rewards
        self._sums.frames += step.frames
        infos = dict(result.infos)
        for index in np.flatnonzero(result.terminated | result.truncated):
            step.episodes.append(self._sums.end(int(index), infos.get(int(index), {})))
        return step

    def tell_policies(self, policies: np.ndarray) -> None:
        """See `EnvVector`; copies inside one environment have no attributes."""

    def shape_rewards(self, schemes: Sequence[dict[str, Any]]) -> None:
        """See `EnvVector`; copies inside one environment can't be shaped one by one."""

    def warm_up(self, steps: Sequence[int], rows: ObsRows, beat: Callable[[], None]) -> None:
        """See `EnvVector`; copies that step together can't be stepped apart, their seeds must do."""

    def close(self) -> None:
        """See `EnvVector`."""
        self.env.close()

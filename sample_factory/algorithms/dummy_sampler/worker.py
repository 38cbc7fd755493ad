"""A worker that steps environments with random actions and does nothing else.

It drives the same `EnvVector` as a rollout worker, so what it reaches is what training could reach if
networks and learning were free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import numpy as np

from sample_factory.algorithms.appo.user_code import UserCode
from sample_factory.config.config import Config
from sample_factory.envs.vector import EnvVector, ObsRows
from sample_factory.processes.affinity import available_cores
from sample_factory.processes.one_time_event import OneTimeEvent
from sample_factory.processes.shared_memory import SharedArrays
from sample_factory.processes.worker import WorkerContext

NUM_RANDOM_ACTIONS = 500
STEPS_PER_POLL = 50


class AffinityChangedError(RuntimeError):
    """A library moved the worker to other cores than it was pinned to."""


@dataclass(frozen=True)
class Score:
    """One worker's part of the shared numbers."""

    numbers: SharedArrays  # `frames` of every worker
    index: int
    limit: int  # frames after which this worker rests

    @property
    def is_done(self) -> bool:
        """Whether this worker's share of the measurement is done."""
        return int(self.numbers["frames"][self.index]) >= self.limit

    def add(self, frames: int) -> None:
        """Counts frames of this worker."""
        self.numbers["frames"][self.index] += frames


@dataclass(frozen=True)
class Waiting:
    """What a worker that does not step waits for."""

    start: OneTimeEvent  # of all workers together
    rest: Callable[[float], object]  # see `WorkerContext`


class SamplerWorker:
    """Waits for the common start, then steps until told to stop."""

    def __init__(
        self, vector: EnvVector, actions: Sequence[Any], rows: ObsRows, score: Score, waiting: Waiting
    ):
        self._waiting = waiting
        self._vector = vector
        self._actions = cycle(actions)
        self._rows = rows
        self._score = score
        self._counted = np.zeros(vector.num_agents, np.int64)

    def poll(self, timeout: float) -> None:
        """A handful of steps, so that the loop around them costs nothing."""
        if not self._waiting.start.wait(timeout):
            return
        if self._score.is_done:
            self._waiting.rest(timeout)
            return
        counted = self._counted
        counted.fill(0)
        for actions in islice(self._actions, STEPS_PER_POLL):
            counted += self._vector.step(actions, self._rows, 0).frames
        self._score.add(int(counted.sum()))

    def close(self) -> None:
        """Closes the environments."""
        self._vector.close()


@dataclass(frozen=True)
class SamplerWorkerBuilder:
    """Builds one sampler worker and its environments."""

    cfg: Config
    user_code: UserCode
    numbers: SharedArrays
    start: OneTimeEvent
    worker_id: int

    def __call__(self, context: WorkerContext) -> SamplerWorker:
        """Runs where the worker runs."""
        self.user_code.restore()
        cores = available_cores()
        vector, space = self._make_vector(context)
        if available_cores() != cores:
            raise AffinityChangedError(
                f"--env={self.cfg.env} moved its process from cores {cores} to {available_cores()}; "
                "use --set_workers_cpu_affinity=False."
            )
        actions = random_actions(space, vector.num_agents, self.worker_id)
        score = Score(self.numbers, self.worker_id, self.cfg.sample_env_frames_per_worker)
        return SamplerWorker(vector, actions, self._rows(vector), score, Waiting(self.start, context.rest))

    def _rows(self, vector: EnvVector) -> ObsRows:
        from sample_factory.envs.observations import observation_dict_space

        arrays = {
            key: np.zeros((vector.num_agents, 1, *(space.shape or ())), space.dtype)
            for key, space in observation_dict_space(_first_env(vector)).spaces.items()
        }
        rows = ObsRows(arrays, np.arange(vector.num_agents))
        vector.reset(rows)
        return rows

    def _make_vector(self, context: WorkerContext) -> tuple[EnvVector, Any]:
        from sample_factory.envs.batched import as_batched
        from sample_factory.envs.batched_vector import BatchedVector
        from sample_factory.envs.contract import EnvConfig, is_multiagent
        from sample_factory.envs.make import make_env, make_vector_env
        from sample_factory.envs.multi_agent_vector import MultiAgentVector
        from sample_factory.envs.vector import SingleAgentVector

        cfg = self.cfg
        first = self.worker_id * cfg.num_envs_per_worker
        batch = make_vector_env(cfg.env, cfg, cfg.num_envs_per_worker)
        if batch is not None:
            vector = BatchedVector(as_batched(batch), seed=first)
            return vector, vector.env.action_space
        envs = []
        for i in range(cfg.num_envs_per_worker):
            envs.append(make_env(cfg.env, cfg, EnvConfig(self.worker_id, i, first + i)))
            context.beat()
        seeds = range(first, first + len(envs))
        if is_multiagent(envs[0]):
            return MultiAgentVector(envs, list(seeds)), envs[0].action_space
        return SingleAgentVector(envs, list(seeds)), envs[0].action_space


def random_actions(space: Any, num_agents: int, seed: int) -> list[list[Any]]:
    """What the agents of a worker do, again and again."""
    space.seed(seed)
    return [[space.sample() for _ in range(num_agents)] for _ in range(NUM_RANDOM_ACTIONS)]


def _first_env(vector: Any) -> Any:
    return vector.env if hasattr(vector, "env") else vector.envs[0]

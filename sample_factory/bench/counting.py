"""Counts environment steps inside the environments, in memory that the measuring process reads.

The measured program (`trainee`, `bare_loop`) registers its family again with constructors that count; the
measuring process (`watching`) reads the sum. So figures do not depend on what the program says of itself.

Invariant: every environment, or batch of them, has a cache line of its own and is its only writer.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from sample_factory.envs.batched import BatchedEnv, BatchedStep, as_batched
from sample_factory.envs.make_function import MakeEnv
from sample_factory.envs.registry import family_for, register_family
from sample_factory.envs.wrappers import EnvWrapper

if TYPE_CHECKING:
    from sample_factory.config.config import Config
    from sample_factory.envs.contract import EnvConfig

MAX_SLOTS = 8192
_INTS_PER_SLOT = 8  # 64 bytes
_FILE_BYTES = (MAX_SLOTS + 1) * _INTS_PER_SLOT * 8  # the first slot counts the slots that are taken


def create_counters(path: Path) -> None:
    """Makes an empty file of counters."""
    with path.open("wb") as file:
        file.truncate(_FILE_BYTES)


def read_counters(path: Path) -> np.ndarray:
    """Steps so far of every environment `[environments]`; later ones are added at the end."""
    numbers = np.fromfile(path, np.int64).reshape(-1, _INTS_PER_SLOT)
    taken = int(numbers[0, 0])
    return numbers[1 : taken + 1, 0].copy()


def claim_slot(path: Path) -> memoryview:
    """A counter for the caller alone, as a view of one int64: cheaper to raise than an array's element."""
    view, first = _claim(path, 1)
    return view[first * _INTS_PER_SLOT : first * _INTS_PER_SLOT + 1]


def claim_slots(path: Path, count: int) -> np.ndarray:
    """Counters for the caller alone, as one int64 array `[count]`: a batch raises all in one call."""
    view, first = _claim(path, count)
    return np.asarray(view).reshape(-1, _INTS_PER_SLOT)[first : first + count, 0]


def _claim(path: Path, count: int) -> tuple[memoryview, int]:
    """The whole file as int64, and the first of `count` slots that nobody else has."""
    fd = os.open(path, os.O_RDWR)
    try:
        view = memoryview(mmap.mmap(fd, _FILE_BYTES)).cast("q")
        fcntl.flock(fd, fcntl.LOCK_EX)
        taken = view[0]
        if taken + count > MAX_SLOTS:
            raise RuntimeError(f"more than {MAX_SLOTS} environments can't be counted")
        view[0] = taken + count
    finally:
        # The mapping keeps a duplicate of the descriptor, and with it the lock.
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)
    return view, taken + 1


def count_family(env_name: str, path: Path) -> None:
    """Registers the environment's family again, for this name alone, with constructors that count."""
    family = family_for(env_name)
    make_vector = family.make_vector_env
    register_family(
        replace(
            family,
            prefix=env_name,
            make_env=CountedMake(family.make_env, path),
            make_vector_env=None if make_vector is None else CountedMakeVector(make_vector, path),
        )
    )


@dataclass(frozen=True)
class CountedMake:
    """Makes one environment that counts."""

    make: MakeEnv
    path: Path

    def __call__(
        self, name: str, cfg: Config, env_config: EnvConfig | None, render_mode: str | None = None
    ) -> Any:
        """As the family's own constructor; one that is only looked at is not counted."""
        env = self.make(name, cfg, env_config, render_mode)
        return env if env_config is None else CountedEnv(env, claim_slot(self.path))


@dataclass(frozen=True)
class CountedMakeVector:
    """Makes a batch of environments that counts."""

    make: Callable[[str, Any, int], Any]
    path: Path

    def __call__(self, name: str, cfg: Config, num_envs: int) -> BatchedEnv | None:
        """As the family's own constructor."""
        batch = self.make(name, cfg, num_envs)
        if batch is None:
            return None
        return CountedBatch(as_batched(batch), claim_slots(self.path, num_envs))


class CountedEnv(EnvWrapper):
    """Counts its steps."""

    def __init__(self, env: gymnasium.Env, counter: memoryview):
        super().__init__(env)
        self._counter = counter

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps and counts."""
        self._counter[0] += 1
        return self.env.step(action)


class CountedBatch:
    """Counts the steps of every copy; a copy's reset is no step."""

    def __init__(self, batch: BatchedEnv, counters: np.ndarray):
        self._batch = batch
        self._counters = counters
        self.num_envs = batch.num_envs
        self.observation_space = batch.observation_space
        self.action_space = batch.action_space

    def reset(self, seed: int) -> dict[str, np.ndarray]:
        """See `BatchedEnv`."""
        return self._batch.reset(seed)

    def step(self, actions: np.ndarray) -> BatchedStep:
        """See `BatchedEnv`."""
        step = self._batch.step(actions)
        self._counters += ~step.resets
        return step

    def close(self) -> None:
        """See `BatchedEnv`."""
        self._batch.close()

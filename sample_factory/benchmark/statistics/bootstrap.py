"""Stratified bootstrap: how far a statistic could be off because runs were few.

Tables, comparisons and plots use it. Each replicate draws, for every task on its own, as many runs as the
task has, with replacement; the interval is read off the percentiles of the statistic over replicates.

Invariant: the same scores and settings give the same interval, whatever was computed before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sample_factory.benchmark.statistics.aggregates import Tasks

# Takes as many groups of tasks as it was given, each array with a leading axis of replicates.
Statistic = Callable[..., np.ndarray]

FEW_RUNS = 5  # below, percentile intervals are known to be too narrow
_BLOCK_NUMBERS = 4_000_000  # numbers a statistic may hold at once


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are computed.

    Attributes:
        reps: number of replicates.
        ci: the share of replicates inside the interval.
        seed: of the draws.
        resample_tasks: draw tasks too, to speak about tasks like these rather than about these.
    """

    reps: int = 2000
    ci: float = 0.95
    seed: int = 0
    resample_tasks: bool = False


@dataclass(frozen=True)
class Interval:
    """Bounds of a statistic; NaN where a single run leaves nothing to resample."""

    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether there were enough runs for an interval."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))


UNKNOWN = Interval(float("nan"), float("nan"))


def interval(statistic: Statistic, *groups: Tasks, settings: Bootstrap) -> Interval:
    """The confidence interval of a statistic of one or more algorithms, resampled independently.

    Unknown if any task has a single run: a draw would always repeat it, and certainty would be pretended.
    """
    if min(task.shape[-1] for tasks in groups for task in tasks) < 2:
        return UNKNOWN
    low, high = band(statistic, *groups, settings=settings)
    return Interval(float(low), float(high))


def band(statistic: Statistic, *groups: Tasks, settings: Bootstrap) -> tuple[np.ndarray, np.ndarray]:
    """Pointwise bounds of a statistic that returns arrays, in its shape."""
    values = replicates(statistic, *groups, settings=settings)
    tail = 50.0 * (1.0 - settings.ci)
    low, high = np.percentile(values, [tail, 100.0 - tail], axis=0)
    return low, high


def replicates(statistic: Statistic, *groups: Tasks, settings: Bootstrap) -> np.ndarray:
    """The statistic of every replicate, `[reps, ...]`."""
    generator = np.random.default_rng(settings.seed)
    draws = [
        [generator.integers(task.shape[-1], size=(settings.reps, task.shape[-1])) for task in tasks]
        for tasks in groups
    ]
    if settings.resample_tasks:
        chosen = generator.integers(len(groups[0]), size=(settings.reps, len(groups[0])))
        return _with_tasks_resampled(statistic, groups, draws, chosen)
    block = _block_size(groups)
    parts = []
    for start in range(0, settings.reps, block):
        rows = slice(start, start + block)
        resampled = [
            [task[indices[rows]] for task, indices in zip(tasks, drawn, strict=True)]
            for tasks, drawn in zip(groups, draws, strict=True)
        ]
        parts.append(statistic(*resampled))
    return np.concatenate(parts)


def _with_tasks_resampled(
    statistic: Statistic, groups: tuple[Tasks, ...], draws: list[list[np.ndarray]], chosen: np.ndarray
) -> np.ndarray:
    # Tasks may differ in their number of runs, so that replicates do not stack.
    values = []
    for row, tasks_drawn in enumerate(chosen):
        resampled = [
            [tasks[task][drawn[task][row]] for task in tasks_drawn]
            for tasks, drawn in zip(groups, draws, strict=True)
        ]
        values.append(statistic(*resampled))
    return np.stack(values)


def _block_size(groups: tuple[Tasks, ...]) -> int:
    """Replicates per call, such that all pairs of runs of a task still fit into memory."""
    runs = [task.shape[-1] for tasks in groups for task in tasks]
    return max(1, _BLOCK_NUMBERS // (sum(runs) * max(runs)))

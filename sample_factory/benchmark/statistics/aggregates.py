"""Point estimates: one number for the scores of one algorithm on several tasks.

Tables, plots and the bootstrap use them. `tasks` is one array per task whose last axis is the runs; leading
axes are batches (the bootstrap's replicates) and must agree between tasks. The numbers of runs may differ.

Invariant: every task carries the same weight, however many runs it has. The definitions are those of
Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

Tasks = Sequence[np.ndarray]  # one array [..., runs] per task

_QUARTER = 0.25


def as_tasks(scores: Sequence[ArrayLike]) -> list[np.ndarray]:
    """The scores of each task as floats.

    Raises:
        ValueError: there is no task, a task has no runs, or a score is not finite.
    """
    tasks = [np.asarray(task, dtype=np.float64) for task in scores]
    if not tasks:
        raise ValueError("statistics need at least one task")
    for task in tasks:
        if task.shape[-1:] in ((), (0,)):
            raise ValueError("statistics need at least one run per task")
        if not np.isfinite(task).all():
            raise ValueError("statistics need finite scores")
    return tasks


def task_means(tasks: Tasks) -> np.ndarray:
    """The mean score of each task, `[..., tasks]`."""
    return np.stack([task.mean(axis=-1) for task in tasks], axis=-1)


def mean(tasks: Tasks) -> np.ndarray:
    """Mean over tasks of the task means, `[...]`."""
    return task_means(tasks).mean(axis=-1)


def median(tasks: Tasks) -> np.ndarray:
    """Median over tasks of the task means, `[...]`."""
    return np.median(task_means(tasks), axis=-1)


def iqm(tasks: Tasks) -> np.ndarray:
    """Interquartile mean of all scores of all tasks together, `[...]`.

    With equally many runs per task it drops `int(N / 4)` scores from each end; otherwise it cuts a quarter
    of the weight from each end, splitting the scores at the borders.
    """
    scores = np.concatenate(list(tasks), axis=-1)
    counts = [task.shape[-1] for task in tasks]
    if len(set(counts)) == 1:
        return trimmed_mean(scores)
    weights = np.repeat([1.0 / (len(counts) * count) for count in counts], counts)
    return weighted_trimmed_mean(scores, weights)


def optimality_gap(tasks: Tasks, gamma: float = 1.0) -> np.ndarray:
    """By how much normalised scores, cut off at `gamma`, miss it on average, `[...]`; lower is better."""
    return gamma - mean([np.minimum(task, gamma) for task in tasks])


def performance_profile(tasks: Tasks, thresholds: np.ndarray) -> np.ndarray:
    """Share of scores above each threshold, every task with the same weight, `[..., thresholds]`."""
    return np.stack([mean([task > threshold for task in tasks]) for threshold in thresholds], axis=-1)


def profile_of_means(tasks: Tasks, thresholds: np.ndarray) -> np.ndarray:
    """Share of tasks whose mean score is above each threshold, `[..., thresholds]`."""
    means = task_means(tasks)
    return np.stack([(means > threshold).mean(axis=-1) for threshold in thresholds], axis=-1)


def trimmed_mean(scores: np.ndarray) -> np.ndarray:
    """Mean along the last axis after dropping a quarter of the values, rounded down, from each end."""
    cut = int(_QUARTER * scores.shape[-1])
    return np.sort(scores, axis=-1)[..., cut : scores.shape[-1] - cut].mean(axis=-1)


def weighted_trimmed_mean(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean along the last axis of the middle half of the weight.

    Args:
        scores: `[..., N]`.
        weights: `[N]`, sum 1.
    """
    order = np.argsort(scores, axis=-1, kind="stable")
    ends = np.cumsum(weights[order], axis=-1)
    starts = ends - weights[order]
    kept = np.clip(np.minimum(ends, 1 - _QUARTER) - np.maximum(starts, _QUARTER), 0.0, None)
    total: np.ndarray = (kept * np.take_along_axis(scores, order, axis=-1)).sum(axis=-1) / kept.sum(axis=-1)
    return total


@dataclass(frozen=True)
class Description:
    """The scores of one algorithm on one task; `std` divides by N, not by N - 1."""

    n: int
    mean: float
    std: float
    median: float
    iqm: float
    min: float
    max: float

    @property
    def sem(self) -> float:
        """Standard error of the mean, `std / sqrt(n)`."""
        return self.std / float(np.sqrt(self.n))


def describe(scores: ArrayLike) -> Description:
    """Describes the scores `[runs]` of one task."""
    (values,) = as_tasks([scores])
    return Description(
        n=len(values),
        mean=float(values.mean()),
        std=float(values.std()),
        median=float(np.median(values)),
        iqm=float(trimmed_mean(values)),
        min=float(values.min()),
        max=float(values.max()),
    )

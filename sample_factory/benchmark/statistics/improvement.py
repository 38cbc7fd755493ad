"""Comparing two algorithms X and Y: how likely is a run of X better than one of Y?

`compare` and the plots use it. Larger scores are better; the first argument is always the candidate.

Invariant: `probability_of_improvement(x, y) + probability_of_improvement(y, x) == 1`; ties count half.
"""

from __future__ import annotations

import math

import numpy as np

from sample_factory.benchmark.statistics.aggregates import Tasks
from sample_factory.benchmark.statistics.bootstrap import Bootstrap, replicates

# A two-sided 5 % test that notices a real difference four times in five.
_Z_LEVEL = 1.959964
_Z_POWER = 0.841621


def task_improvement(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """P(X > Y) + P(X = Y) / 2 on one task, over all pairs of runs.

    Args:
        x: `[..., n]`.
        y: `[..., m]`.
    """
    difference = x[..., :, None] - y[..., None, :]
    wins: np.ndarray = (0.5 + 0.5 * np.sign(difference)).mean(axis=(-2, -1))
    return wins


def probability_of_improvement(x: Tasks, y: Tasks) -> np.ndarray:
    """Mean over tasks of the probability that X beats Y; the tasks of both stand in the same order."""
    return np.stack([task_improvement(a, b) for a, b in zip(x, y, strict=True)], axis=-1).mean(axis=-1)


def cliffs_delta(improvement: float) -> float:
    """Cliff's delta, in [-1, 1], of a probability of improvement (which is Vargha and Delaney's A)."""
    return 2.0 * improvement - 1.0


def more_runs_needed(x: Tasks, y: Tasks, settings: Bootstrap) -> int | None:
    """How many more runs per task would show the difference seen so far; None if there is none to show.

    The spread of the bootstrap shrinks with the square root of the number of runs, so that number follows
    from the spread now. Good for planning, not for deciding.
    """
    distance = abs(float(probability_of_improvement(x, y)) - 0.5)
    if distance < 1e-9:
        return None
    spread = float(replicates(probability_of_improvement, x, y, settings=settings).std())
    runs = min(task.shape[-1] for tasks in (x, y) for task in tasks)
    factor = ((_Z_LEVEL + _Z_POWER) * spread / distance) ** 2
    return max(1, math.ceil(runs * factor) - runs)

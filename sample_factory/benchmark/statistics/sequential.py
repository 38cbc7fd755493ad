"""Looking at two algorithms more than once, as runs come in, without fooling oneself.

`benchmark run --until_decided` uses it. Every look is a stratified permutation test of the probability of
improvement; the looks share the level by Pocock's spending function (Lan and DeMets 1983), and each may use
only its own share, so that the chance of any false decision stays below the level by the union bound.

Invariant: the p-values are valid for any number of runs: without a difference, labels are exchangeable.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from sample_factory.benchmark.statistics.aggregates import Tasks
from sample_factory.benchmark.statistics.improvement import probability_of_improvement

LEVEL = 0.05
_PERMUTATIONS = 5000


def look_levels(num_looks: int, level: float = LEVEL) -> list[float]:
    """The level each of some equally spaced looks may use; they sum up to `level`."""
    spent = [level * math.log(1.0 + (math.e - 1.0) * look / num_looks) for look in range(num_looks + 1)]
    return [after - before for before, after in itertools.pairwise(spent)]


def permutation_p(x: Tasks, y: Tasks, seed: int = 0, permutations: int = _PERMUTATIONS) -> float:
    """The two-sided p-value of "X and Y do not differ": labels are shuffled within each task.

    Args:
        x: scores of X, one array `[n]` per task.
        y: scores of Y in the same order of tasks, `[m]` each.
        seed: of the shuffling.
        permutations: how many; the p-value is at least one more than their number's inverse.
    """
    generator = np.random.default_rng(seed)
    distance = abs(float(probability_of_improvement(x, y)) - 0.5)
    shuffled_x, shuffled_y = [], []
    for a, b in zip(x, y, strict=True):
        pool = np.tile(np.concatenate([a, b]), (permutations, 1))
        pool = generator.permuted(pool, axis=1)
        shuffled_x.append(pool[:, : len(a)])
        shuffled_y.append(pool[:, len(a) :])
    shuffled = np.abs(probability_of_improvement(shuffled_x, shuffled_y) - 0.5)
    # The order that was seen is one of the permutations; rounding must not hide ties with it.
    at_least = int((shuffled >= distance - 1e-12).sum())
    return (at_least + 1) / (permutations + 1)

"""Mann-Whitney tests per task, and Holm's correction for testing many tasks.

`compare` prints them beside the probability of improvement; they are never the headline.

Invariant: two-sided p-values; exact where ties do not forbid it and a sample is small, as statisticians
expect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

_EXACT_RUNS = 8  # up to here the normal approximation is too rough


def mann_whitney_p(x: np.ndarray, y: np.ndarray) -> float:
    """The p-value of "neither sample tends to be larger", for samples `[n]` and `[m]`."""
    n, m = len(x), len(y)
    u = float((0.5 + 0.5 * np.sign(x[:, None] - y[None, :])).sum())
    larger = max(u, n * m - u)
    _, ties = np.unique(np.concatenate([x, y]), return_counts=True)
    if min(n, m) <= _EXACT_RUNS and ties.max() == 1:
        return _exact_p(n, m, round(larger))
    return _normal_p(n, m, larger, ties)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted so that the chance of any false alarm among them keeps its level."""
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(p_values))
    factors = len(p_values) - np.arange(len(p_values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(np.asarray(p_values)[order] * factors))
    return [float(value) for value in adjusted]


def _exact_p(n: int, m: int, u: int) -> float:
    """Counts how many ways of choosing which ranks belong to the smaller sample give U or more."""
    size = min(n, m)
    # ways[k, s]: choices of k ranks with sum s; all sums are of positive numbers, so floats lose nothing.
    largest_sum = size * (n + m)
    ways = np.zeros((size + 1, largest_sum + 1))
    ways[0, 0] = 1.0
    for rank in range(1, n + m + 1):
        ways[1:, rank:] += ways[:-1, :-rank].copy()
    by_u = ways[size, size * (size + 1) // 2 :][: n * m + 1]
    return min(1.0, 2.0 * float(by_u[u:].sum() / by_u.sum()))


def _normal_p(n: int, m: int, u: float, ties: np.ndarray) -> float:
    total = n + m
    tie_term = float((ties.astype(np.float64) ** 3 - ties).sum()) / (total * (total - 1))
    variance = n * m / 12.0 * (total + 1 - tie_term)
    if variance <= 0.0:
        return 1.0  # all scores are equal
    z = (u - n * m / 2.0 - 0.5) / math.sqrt(variance)  # one half: U moves in steps, the normal does not
    return min(1.0, math.erfc(z / math.sqrt(2.0)))

"""Point estimates against the golden numbers, scipy, rliable and slow references."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from sample_factory.benchmark.statistics.aggregates import (
    as_tasks,
    describe,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    profile_of_means,
    trimmed_mean,
    weighted_trimmed_mean,
)
from tests.benchmark.rliable_oracle import IQM, MEAN, MEDIAN, OPTIMALITY_GAP, PROFILE, THRESHOLDS, X

A = as_tasks([[1, 2, 3], [10, 20, 30]])
SCORES = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=12)


def columns(matrix: list[list[float]]) -> list[np.ndarray]:
    return as_tasks(list(np.array(matrix).T))


def test_golden_mean_over_tasks() -> None:
    assert mean(A) == 11.0


def test_golden_median_over_tasks() -> None:
    assert median(A) == 11.0


def test_golden_iqm_pools_runs_of_all_tasks() -> None:
    assert iqm(A) == 8.75


def test_golden_optimality_gap() -> None:
    assert optimality_gap([task / 20 for task in A]) == pytest.approx(0.533333, abs=5e-7)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [(list(range(10)), 4.5), ([0, 0, 0, 0, 1, 1, 1, 1, 1, 10], 2 / 3), (list(range(20)), 9.5)],
)
def test_golden_iqm_of_one_task(scores: list[float], expected: float) -> None:
    assert iqm(as_tasks([scores])) == pytest.approx(expected)


def test_rliable_agrees_on_every_point_estimate() -> None:
    tasks = columns(X)
    ours = [float(statistic(tasks)) for statistic in (mean, median, iqm, optimality_gap)]
    assert ours == pytest.approx([MEAN, MEDIAN, IQM, OPTIMALITY_GAP])


def test_rliable_agrees_on_the_performance_profile() -> None:
    assert performance_profile(columns(X), np.array(THRESHOLDS)) == pytest.approx(PROFILE)


@given(SCORES)
def test_trimmed_mean_is_scipys(scores: list[float]) -> None:
    assert trimmed_mean(np.array(scores)) == pytest.approx(scipy_stats.trim_mean(scores, 0.25))


@given(st.lists(SCORES, min_size=1, max_size=4))
def test_iqm_of_unequal_tasks_is_the_iqm_of_tasks_made_equally_long(scores: list[list[float]]) -> None:
    """Repeating runs does not change what a task weighs: the slow way is to make tasks equally long."""
    longest = 4 * int(np.lcm.reduce([len(task) for task in scores]))  # the quarter then cuts no score in two
    repeated = as_tasks([np.repeat(task, longest // len(task)) for task in scores])
    counts = [len(task) for task in scores]
    pooled = np.concatenate([np.asarray(task) for task in scores])
    weights = np.repeat([1 / (len(counts) * count) for count in counts], counts)
    assert weighted_trimmed_mean(pooled, weights) == pytest.approx(iqm(repeated), abs=1e-9)


def test_iqm_weighs_a_task_with_few_runs_like_one_with_many() -> None:
    # By hand: weights 1/2 on 0, 1/2 on 8 runs of 1; the middle half is a quarter of each.
    assert iqm(as_tasks([[0.0], [1.0] * 8])) == pytest.approx(0.5)


def test_optimality_gap_weighs_tasks_equally_whatever_their_runs() -> None:
    assert optimality_gap(as_tasks([[0.0], [1.0] * 9])) == pytest.approx(0.5)


def test_profile_weighs_tasks_equally_whatever_their_runs() -> None:
    profile = performance_profile(as_tasks([[0.0], [1.0] * 9]), np.array([0.5]))
    assert profile == pytest.approx([0.5])


def test_profile_counts_scores_strictly_above_the_threshold() -> None:
    assert performance_profile(as_tasks([[1.0, 2.0]]), np.array([1.0])) == pytest.approx([0.5])


def test_profile_of_means_counts_tasks() -> None:
    profile = profile_of_means(as_tasks([[0.0, 1.0], [2.0, 4.0]]), np.array([0.4, 1.0, 3.0]))
    assert profile == pytest.approx([1.0, 0.5, 0.0])


@given(st.lists(SCORES, min_size=1, max_size=3), st.integers(1, 4))
def test_leading_axes_are_batches(scores: list[list[float]], batch: int) -> None:
    tasks = as_tasks(scores)
    batched = [np.tile(task, (batch, 1)) for task in tasks]
    for statistic in (mean, median, iqm, optimality_gap):
        assert statistic(batched) == pytest.approx(np.full(batch, statistic(tasks)), abs=1e-9)


def test_describe_uses_the_population_standard_deviation() -> None:
    described = describe([1.0, 3.0])
    assert (described.n, described.mean, described.std, described.sem) == pytest.approx(
        (2, 2.0, 1.0, 0.70710678)
    )


@pytest.mark.parametrize("scores", [[], [[]], [[1.0, float("nan")]]])
def test_scores_that_mean_nothing_are_refused(scores: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="statistics need"):
        as_tasks(scores)

"""Intervals: reproducible, like rliable's, right in simulation, honest with few runs."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats as scipy_stats

import tests.benchmark.rliable_oracle as oracle
from sample_factory.benchmark.statistics.aggregates import (
    as_tasks,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
)
from sample_factory.benchmark.statistics.bootstrap import Bootstrap, band, interval, replicates
from sample_factory.benchmark.statistics.improvement import (
    cliffs_delta,
    more_runs_needed,
    probability_of_improvement,
)

X, Y = (as_tasks(list(np.array(scores).T)) for scores in (oracle.X, oracle.Y))
MANY = Bootstrap(reps=20_000)


@pytest.mark.parametrize(
    ("statistic", "expected"),
    [
        (mean, oracle.MEAN_95),
        (median, oracle.MEDIAN_95),
        (iqm, oracle.IQM_95),
        (optimality_gap, oracle.OPTIMALITY_GAP_95),
    ],
)
def test_rliable_agrees_on_intervals_up_to_resampling_noise(statistic, expected) -> None:
    found = interval(statistic, X, settings=MANY)
    assert (found.low, found.high) == pytest.approx(expected, abs=0.004)


def test_rliable_agrees_on_the_interval_of_the_improvement() -> None:
    found = interval(probability_of_improvement, X, Y, settings=MANY)
    assert (found.low, found.high) == pytest.approx(oracle.IMPROVEMENT_95, abs=0.01)


def test_rliable_agrees_on_the_band_of_the_profile() -> None:
    thresholds = np.array(oracle.THRESHOLDS)
    low, high = band(lambda tasks: performance_profile(tasks, thresholds), X, settings=MANY)
    assert low == pytest.approx(oracle.PROFILE_95_LOW, abs=0.021)
    assert high == pytest.approx(oracle.PROFILE_95_HIGH, abs=0.021)


@pytest.mark.skipif(importlib.util.find_spec("rliable") is None, reason="rliable is not installed")
def test_rliable_itself_agrees_on_fresh_scores() -> None:
    from rliable import metrics

    scores = np.random.default_rng(3).normal(size=(7, 4))
    others = np.random.default_rng(4).normal(size=(9, 4))
    tasks, other_tasks = as_tasks(list(scores.T)), as_tasks(list(others.T))
    assert iqm(tasks) == pytest.approx(metrics.aggregate_iqm(scores))
    assert median(tasks) == pytest.approx(metrics.aggregate_median(scores))
    assert optimality_gap(tasks) == pytest.approx(metrics.aggregate_optimality_gap(scores))
    expected = metrics.probability_of_improvement(scores, others)
    assert probability_of_improvement(tasks, other_tasks) == pytest.approx(expected)


def test_scipy_agrees_on_the_interval_of_a_mean() -> None:
    scores = np.array(oracle.X)[:, 0]
    expected = scipy_stats.bootstrap(
        (scores,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(1)
    ).confidence_interval
    found = interval(mean, as_tasks([scores]), settings=MANY)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.006)


def test_the_same_seed_gives_identical_intervals() -> None:
    assert interval(iqm, X, settings=Bootstrap(seed=5)) == interval(iqm, X, settings=Bootstrap(seed=5))


def test_another_seed_gives_another_interval() -> None:
    assert interval(iqm, X, settings=Bootstrap(seed=5)) != interval(iqm, X, settings=Bootstrap(seed=6))


def test_the_order_of_statistics_does_not_matter() -> None:
    alone = interval(median, X, settings=Bootstrap())
    interval(iqm, X, settings=Bootstrap())
    assert interval(median, X, settings=Bootstrap()) == alone


def test_permuting_runs_changes_nothing_but_the_draw() -> None:
    shuffled = [np.random.default_rng(0).permutation(task) for task in X]
    ours, theirs = (interval(iqm, tasks, settings=MANY) for tasks in (X, shuffled))
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.004)


def test_tasks_are_not_mixed_when_resampled() -> None:
    """Tasks far apart: any run drawn for the wrong task would move the mean by thousands."""
    tasks = as_tasks([[0.0, 1.0], [10_000.0, 10_001.0]])
    values = replicates(mean, tasks, settings=Bootstrap(reps=200))
    assert set(values) <= {5000.0, 5000.25, 5000.5, 5000.75, 5001.0}


def test_unequal_numbers_of_runs_are_resampled_each_with_its_own() -> None:
    tasks = as_tasks([[1.0, 2.0, 3.0], [4.0] * 7])
    found = interval(mean, tasks, settings=Bootstrap())
    assert 2.5 <= found.low < 3.0 < found.high <= 3.5


def test_blocks_do_not_change_the_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = replicates(probability_of_improvement, X, Y, settings=Bootstrap(reps=50))
    monkeypatch.setattr("sample_factory.benchmark.statistics.bootstrap._BLOCK_NUMBERS", 3000)
    assert np.array_equal(replicates(probability_of_improvement, X, Y, settings=Bootstrap(reps=50)), whole)


def test_a_single_run_has_no_interval() -> None:
    assert not interval(mean, as_tasks([[1.0], [2.0, 3.0]]), settings=Bootstrap()).is_known


def test_a_wider_confidence_gives_a_wider_interval() -> None:
    narrow, wide = (interval(mean, X, settings=Bootstrap(ci=ci)) for ci in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_resampling_tasks_widens_the_interval_when_tasks_differ() -> None:
    tasks = as_tasks([[0.0, 0.1], [5.0, 5.1], [10.0, 10.1, 10.2]])
    fixed, resampled = (
        interval(mean, tasks, settings=replace(Bootstrap(reps=500), resample_tasks=choice))
        for choice in (False, True)
    )
    assert resampled.high - resampled.low > 10 * (fixed.high - fixed.low)


def test_resampling_tasks_keeps_the_tasks_of_both_algorithms_together() -> None:
    """X wins every task by a little and tasks differ by a lot: pairing tasks wrongly would lose some."""
    x = as_tasks([[1.0, 1.1], [101.0, 101.1]])
    y = as_tasks([[0.0, 0.1], [100.0, 100.1]])
    values = replicates(probability_of_improvement, x, y, settings=Bootstrap(reps=100, resample_tasks=True))
    assert set(values) == {1.0}


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    """Nominal 95 %; percentile intervals of 20 runs are known to reach about 92 to 94 %."""
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        found = interval(mean, as_tasks([generator.normal(size=20)]), settings=Bootstrap(reps=400))
        hits += found.low <= 0.0 <= found.high
    assert 0.88 <= hits / 300 <= 0.97


def test_cliffs_delta_is_symmetric_about_one_half() -> None:
    assert [cliffs_delta(p) for p in (0.0, 0.5, 1.0)] == [-1.0, 0.0, 1.0]


def test_equal_scores_need_no_number_of_runs() -> None:
    assert more_runs_needed(X, X, Bootstrap()) is None


def test_a_smaller_difference_needs_more_runs() -> None:
    generator = np.random.default_rng(2)
    base = generator.normal(size=10)
    far, near = (more_runs_needed([base + shift], [base], Bootstrap()) for shift in (0.6, 0.2))
    assert far is not None and near is not None and near > far >= 1

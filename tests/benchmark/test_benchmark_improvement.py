"""Probability of improvement, Mann-Whitney and Holm against golden numbers and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from sample_factory.benchmark.statistics.aggregates import as_tasks
from sample_factory.benchmark.statistics.improvement import probability_of_improvement, task_improvement
from sample_factory.benchmark.statistics.significance import holm, mann_whitney_p
from tests.benchmark.rliable_oracle import IMPROVEMENT_X_OVER_Y, X, Y

A = as_tasks([[1, 2, 3], [10, 20, 30]])
B = as_tasks([[2, 2, 4], [5, 15, 40]])
SAMPLE = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=12)
DISTINCT = st.lists(st.integers(-500, 500).map(float), min_size=2, max_size=24, unique=True)


def test_golden_improvement_of_each_task() -> None:
    assert [float(task_improvement(a, b)) for a, b in zip(A, B, strict=True)] == pytest.approx([3 / 9, 5 / 9])


def test_golden_improvement_in_both_directions() -> None:
    assert probability_of_improvement(A, B) == pytest.approx(4 / 9)
    assert probability_of_improvement(B, A) == pytest.approx(5 / 9)


def test_golden_ties_count_half() -> None:
    assert probability_of_improvement(as_tasks([[1, 2]]), as_tasks([[1, 3, 2]])) == pytest.approx(1 / 3)


def test_golden_shifted_scores() -> None:
    c = as_tasks(list(np.arange(20.0).reshape(10, 2).T))
    d = [task + 3 for task in c]
    found = [float(probability_of_improvement(*pair)) for pair in ((c, d), (d, c))]
    assert found == pytest.approx([0.36, 0.64])


def test_rliable_agrees() -> None:
    x, y = (as_tasks(list(np.array(scores).T)) for scores in (X, Y))
    assert probability_of_improvement(x, y) == pytest.approx(IMPROVEMENT_X_OVER_Y)


def test_a_candidate_better_in_every_run_has_probability_one() -> None:
    assert probability_of_improvement([task + 40 for task in B], B) == 1.0


@given(SAMPLE, SAMPLE)
def test_improvement_is_scipys_u_over_all_pairs(x: list[float], y: list[float]) -> None:
    u = scipy_stats.mannwhitneyu(x, y, method="asymptotic").statistic
    assert task_improvement(np.array(x), np.array(y)) == pytest.approx(u / (len(x) * len(y)))


@given(SAMPLE, SAMPLE)
def test_both_directions_add_up_to_one(x: list[float], y: list[float]) -> None:
    forth, back = task_improvement(np.array(x), np.array(y)), task_improvement(np.array(y), np.array(x))
    assert forth + back == pytest.approx(1.0)


def test_golden_p_values() -> None:
    found = [mann_whitney_p(a, b) for a, b in zip(A, B, strict=True)]
    assert found == pytest.approx([0.642835, 1.0], abs=5e-7)


@given(DISTINCT, st.integers(1, 23))
def test_p_values_without_ties_are_scipys(scores: list[float], border: int) -> None:
    border = min(border, len(scores) - 1)
    x, y = np.array(scores[:border]), np.array(scores[border:])
    assert mann_whitney_p(x, y) == pytest.approx(scipy_stats.mannwhitneyu(x, y).pvalue)


@given(SAMPLE, SAMPLE)
def test_p_values_with_ties_are_scipys(x: list[float], y: list[float]) -> None:
    expected = scipy_stats.mannwhitneyu(x, y).pvalue
    if np.isfinite(expected):
        assert mann_whitney_p(np.array(x), np.array(y)) == pytest.approx(expected)


def test_equal_scores_everywhere_are_no_evidence() -> None:
    assert mann_whitney_p(np.ones(5), np.ones(4)) == 1.0


def test_exact_p_values_stay_exact_with_many_runs_on_one_side() -> None:
    x, y = np.arange(8.0) + 0.5, np.arange(200.0) * 7.3
    expected = scipy_stats.mannwhitneyu(x, y, method="exact").pvalue
    assert mann_whitney_p(x, y) == pytest.approx(expected, rel=1e-9)


def test_holm_on_a_textbook_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_never_exceeds_one() -> None:
    assert holm([0.9, 0.8]) == [1.0, 1.0]

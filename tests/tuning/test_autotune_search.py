"""The search finds the top of made-up machines with few measurements."""

import pytest

from sample_factory.algorithms.appo.autotune_search import (
    Candidate,
    Search,
    first_candidates,
    ladders,
)

PRESENT = Candidate(2, 2, 2, "rollout_workers", 1)


def climb(fps_of, num_cores=2, present=PRESENT, fixed=(), is_allowed=lambda candidate: True):
    fixed = frozenset(fixed)
    first = first_candidates(present, num_cores, fixed)
    search = Search(first, ladders(num_cores), fixed, is_allowed)
    order = []
    while (candidate := search.next()) is not None:
        order.append(candidate)
        search.tell(candidate, fps_of(candidate))
        assert len(order) < 100
    return search, order


def cheap_env(c):
    """Glue costs most: the more environments share it the better, up to 64."""
    local = 1.0 if c.inference == "rollout_workers" else 0.6
    return 1000 * local * c.num_workers * min(c.num_envs_per_worker, 64) ** 0.5


def test_what_was_there_before_is_measured_first():
    _, order = climb(cheap_env)
    assert order[0] == PRESENT


def test_the_top_is_found_where_more_environments_help():
    search, order = climb(cheap_env)
    assert (search.best.num_envs_per_worker, search.best.num_workers) == (64, 4)
    assert search.best.inference == "rollout_workers"
    assert len(order) <= 15


def test_policy_workers_win_where_they_are_faster():
    def fps_of(c):
        return 100 * c.worker_num_splits if c.inference == "policy_workers" else 90

    search, _ = climb(fps_of)
    assert (search.best.inference, search.best.worker_num_splits) == ("policy_workers", 2)


def test_learner_threads_go_to_the_best_number():
    search, _ = climb(lambda c: 1000 - 100 * abs(c.learner_threads - 4), num_cores=8)
    assert search.best.learner_threads == 4


def test_too_many_workers_are_given_up_again():
    search, _ = climb(lambda c: 1000 / (1 + abs(c.num_workers - 1)), num_cores=4)
    assert search.best.num_workers == 1


def test_what_is_fixed_has_the_same_value_in_every_candidate():
    fixed = ("num_workers", "inference")
    present = Candidate(3, 20, 2, "policy_workers", 1)
    search, order = climb(cheap_env, present=present, fixed=fixed)
    assert {(c.num_workers, c.inference) for c in order} == {(3, "policy_workers")}
    assert search.best.num_envs_per_worker == 64


def test_with_everything_fixed_there_is_nothing_but_the_present():
    _, order = climb(cheap_env, fixed=PRESENT.settings())
    assert order == [PRESENT]


def test_no_candidate_is_measured_twice():
    _, order = climb(cheap_env, num_cores=8)
    assert len(order) == len(set(order))


def test_noise_is_no_reason_to_change():
    search, _ = climb(lambda c: 1020.0 if c.num_envs_per_worker > 2 else 1000.0)
    assert search.best == PRESENT


def test_candidates_that_fail_are_passed_by():
    def fps_of(c):
        return None if c.num_envs_per_worker > 16 else cheap_env(c)

    search, _ = climb(fps_of)
    assert search.best.num_envs_per_worker == 16


def test_without_a_single_success_there_is_no_best():
    search, order = climb(lambda c: None)
    assert search.best is None
    assert len(order) == 3


def test_what_is_not_allowed_is_skipped_and_what_lies_behind_is_tried():
    search, order = climb(cheap_env, is_allowed=lambda c: c.num_envs_per_worker != 32)
    assert 32 not in {c.num_envs_per_worker for c in order}
    assert search.best.num_envs_per_worker == 64


def test_splits_are_one_where_nobody_is_waited_for():
    _, order = climb(cheap_env)
    assert {c.worker_num_splits for c in order[1:] if c.inference == "rollout_workers"} == {1}


def test_a_typed_number_of_splits_is_kept_even_where_it_does_nothing():
    _, order = climb(cheap_env, fixed=("worker_num_splits",))
    assert {c.worker_num_splits for c in order} == {2}


@pytest.mark.parametrize("num_cores", [1, 2, 3, 36])
def test_ladders_hold_only_numbers_that_can_be_used(num_cores):
    values = ladders(num_cores)
    assert min(values["num_workers"]) == min(values["learner_threads"]) == 1
    assert num_cores in values["num_workers"] and max(values["learner_threads"]) <= num_cores

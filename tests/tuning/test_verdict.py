"""What limits the speed, from made-up times of the components."""

import numpy as np
import pytest

from sample_factory.algorithms.appo.board import Activity
from sample_factory.algorithms.appo.verdict import judge

ROLLOUT = ["rollout_worker_0", "rollout_worker_1"]


def seconds_of(**activities):
    row = np.zeros(len(Activity))
    for name, value in activities.items():
        row[Activity[name.upper()]] = value
    return row


def verdict(*rows, names=(*ROLLOUT, "learner_0"), serial=False, taking_turns=False):
    return judge(names, np.array(rows), serial, taking_turns)


def test_shares_are_of_the_time_of_all_components_and_add_up():
    busy = seconds_of(environment=6, inference=2, other=2)
    found = verdict(busy, busy, seconds_of(training=4, batching=1, waiting=5))
    assert (found.environment, found.inference) == pytest.approx((40.0, 40 / 3))
    assert (found.learning, found.waiting, found.other) == pytest.approx((50 / 3, 50 / 3, 40 / 3))
    total = found.environment + found.inference + found.learning + found.waiting + found.other
    assert total == pytest.approx(100.0)


def test_busy_workers_and_an_idle_learner_mean_the_environment():
    busy = seconds_of(environment=7, inference=3)
    found = verdict(busy, busy, seconds_of(training=2, waiting=8))
    assert "the environment (70%" in found.sentence and "--num_workers" in found.sentence


def test_workers_that_mostly_run_the_network_mean_inference():
    busy = seconds_of(environment=3, inference=7)
    found = verdict(busy, busy, seconds_of(training=2, waiting=8))
    assert found.sentence.startswith("inference (70%") and "--num_envs_per_worker" in found.sentence


def test_a_busy_learner_that_workers_wait_for_is_the_limit():
    held_up = seconds_of(environment=4, inference=1, waiting=5)
    found = verdict(held_up, held_up, seconds_of(training=9.5, waiting=0.5))
    assert "the learner (95% busy)" in found.sentence and "--learner_threads" in found.sentence


def test_collecting_and_learning_that_take_turns_are_told_how_to_do_both_at_once():
    half = seconds_of(environment=3, inference=1, waiting=6)
    found = verdict(half, half, seconds_of(training=6, waiting=4), taking_turns=True)
    assert found.sentence.startswith("collecting (40% of the time) and learning (60%) that take turns")
    assert "--async_rl=True" in found.sentence and "--learner_threads" in found.sentence


def test_busy_policy_workers_that_rollout_workers_wait_for_are_the_limit():
    held_up = seconds_of(environment=4, waiting=6)
    names = (*ROLLOUT, "policy_worker_0_0", "learner_0")
    rows = (held_up, held_up, seconds_of(inference=9, waiting=1), seconds_of(training=3, waiting=7))
    found = verdict(*rows, names=names)
    assert "--policy_workers_per_policy" in found.sentence


def test_idle_policy_workers_do_not_hide_that_the_environment_is_slow():
    names = (*ROLLOUT, "policy_worker_0_0", "policy_worker_0_1", "learner_0")
    busy, idle = seconds_of(environment=9, waiting=1), seconds_of(inference=1, waiting=9)
    found = verdict(busy, busy, idle, idle, seconds_of(training=3, waiting=7), names=names)
    assert "the environment (90%" in found.sentence


def test_when_all_wait_for_each_other_that_is_said():
    row = seconds_of(environment=2, waiting=8)
    found = verdict(row, row, seconds_of(training=3, waiting=7))
    assert found.sentence.startswith("waiting (80%") and "--num_envs_per_worker" in found.sentence


def test_when_everybody_is_busy_the_largest_share_is_named():
    busy = seconds_of(environment=6, inference=4)
    found = verdict(busy, busy, seconds_of(training=10))
    assert "the cores" in found.sentence and "environment (40%)" in found.sentence


def test_bookkeeping_can_be_the_limit():
    row = seconds_of(environment=2, inference=2, other=6)
    found = verdict(row, row, seconds_of(training=2, waiting=8))
    assert found.sentence.startswith("bookkeeping (60%")


def test_in_one_process_the_time_of_the_others_is_not_waiting():
    rollout = seconds_of(environment=5, inference=1, other=4)
    learner = seconds_of(training=3, waiting=2, other=5)
    found = verdict(rollout, learner, names=("rollout_worker_0", "learner_0"), serial=True)
    assert (found.environment, found.inference, found.learning) == pytest.approx((50.0, 10.0, 30.0))
    assert (found.waiting, found.other) == pytest.approx((0.0, 10.0))
    assert "--serial_mode=False" in found.sentence


def test_the_line_has_all_shares():
    busy = seconds_of(environment=10)
    line = verdict(busy, busy, seconds_of(waiting=10)).line()
    assert "environment 67 %, inference 0 %, learner 0 %, waiting 33 %, other 0 %." in line

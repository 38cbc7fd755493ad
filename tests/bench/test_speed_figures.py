"""From samples to figures: windows, spread, CPU split."""

import pytest

from sample_factory.bench.measurement import Sample, Window, cpu_split, cut_windows, slope, speed_figures


def sample(time_sec, steps, rollout=0.0, learner=0.0, machine=0.0):
    return Sample(time_sec, steps, {"rollout": rollout, "learner": learner}, machine)


def window(steps, **cpu_sec):
    return Window(seconds=10.0, steps=steps, cpu_sec=cpu_sec, foreign_cores=0.0)


def test_windows_begin_after_the_warm_up_and_follow_each_other():
    samples = [sample(t, steps=100 * t) for t in range(0, 11)]
    windows = cut_windows(samples, begin_sec=2.5, window_sec=3.0)
    assert [(w.seconds, w.steps) for w in windows] == [(3, 300), (3, 300)]


def test_a_window_that_is_not_full_does_not_count():
    assert cut_windows([sample(0.0, 0), sample(1.9, 10)], begin_sec=0.0, window_sec=2.0) == []


def test_speed_is_the_median_of_the_windows_with_its_spread():
    figures = speed_figures([window(10), window(40), window(20)], frames_per_step=4)
    assert figures["frames_per_sec"] == {"median": 8.0, "min": 4.0, "max": 16.0, "windows": [4.0, 16.0, 8.0]}


def test_a_step_costs_the_cpu_time_of_the_whole_tree():
    figures = speed_figures([window(1000, rollout=3.0, learner=2.0), window(1000, rollout=5.0)], 1)
    assert figures["core_us_per_step"] == pytest.approx(5000.0)
    assert figures["cores_used"] == pytest.approx(0.5)


def test_work_of_other_programs_is_noticed():
    first = sample(0.0, 0, rollout=1.0, machine=100.0)
    last = sample(10.0, 50, rollout=9.0, learner=2.0, machine=115.0)
    seen = Window.between(first, last)
    assert seen.foreign_cores == pytest.approx(0.5)
    assert not speed_figures([seen], 1)["undisturbed"]


def test_cpu_time_is_split_by_role_and_by_the_stopwatch_of_rollout_workers():
    windows = [window(1, rollout=40.0, policy=10.0, learner=30.0, main=5.0, simulators=15.0)]
    activity = {
        "rollout_worker_0": {"environment": 1.0, "inference": 2.0, "other": 1.0, "waiting": 50.0},
        "rollout_worker_1": {"environment": 1.0, "inference": 2.0, "other": 1.0},
        "learner_0": {"training": 9.0},
    }
    assert cpu_split(windows, activity) == pytest.approx(
        {"environment": 25.0, "inference": 30.0, "learner": 30.0, "main": 5.0, "rollout_bookkeeping": 10.0}
    )


def test_a_program_without_stopwatches_only_steps_environments():
    assert cpu_split([window(1, rollout=9.0, main=1.0)], {})["environment"] == pytest.approx(90.0)


def test_memory_per_environment_is_the_slope():
    assert slope([2, 8, 32], [104.0, 116.0, 164.0]) == pytest.approx(2.0)

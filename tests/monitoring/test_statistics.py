import math

import numpy as np
import pytest

from sample_factory.monitoring.reports import EpisodeReport
from sample_factory.monitoring.statistics import EpisodeStatistics, FpsMeter, flatten_stats


def episode(reward, true_reward=0.0, length=10, **extra):
    return EpisodeReport(0, reward, true_reward, length, extra)


def test_a_window_keeps_only_the_latest_episodes():
    statistics = EpisodeStatistics(stats_avg=3)
    for reward in (100.0, 1.0, 2.0, 6.0):
        statistics.add(0, episode(reward))
    summary = statistics.summary(0, "reward")
    assert (summary.mean, summary.min, summary.max, summary.count) == (3.0, 1.0, 6.0, 3)


def test_every_episode_counts_in_reward_true_reward_and_len():
    statistics = EpisodeStatistics(stats_avg=10)
    statistics.add(0, episode(1.5, true_reward=7.0, length=40))
    statistics.add(0, episode(2.5, true_reward=9.0, length=60))
    assert [statistics.mean(0, name) for name in ("reward", "true_reward", "len")] == [2.0, 8.0, 50.0]


def test_policies_have_windows_of_their_own():
    statistics = EpisodeStatistics(stats_avg=10)
    statistics.add(0, episode(1.0))
    statistics.add(1, episode(5.0))
    assert (statistics.mean(0, "reward"), statistics.mean(1, "reward")) == (1.0, 5.0)


def test_a_policy_without_episodes_has_no_mean():
    assert EpisodeStatistics(stats_avg=10).mean(3, "reward") is None


def test_nested_extra_stats_get_names_with_slashes():
    statistics = EpisodeStatistics(stats_avg=10)
    statistics.add(0, episode(1.0, kills=2, level={"maze": {"score": 4.0}}))
    assert set(statistics.summaries(0)) == {"reward", "true_reward", "len", "kills", "level/maze/score"}


def test_an_extra_stat_cannot_replace_the_reward():
    statistics = EpisodeStatistics(stats_avg=10)
    statistics.add(0, EpisodeReport(0, 1.0, 0.0, 10, {"reward": 99.0}))
    assert statistics.mean(0, "reward") == 1.0


def test_flattening_keeps_numbers_of_all_kinds_and_drops_the_rest():
    stats = {"a": np.float32(1.5), "b": np.array([2]), "c": True, "d": "text", "e": None, "f": np.zeros(3)}
    assert flatten_stats(stats) == {"a": 1.5, "b": 2.0, "c": 1.0}


def test_speed_is_unknown_before_the_second_record(clock):
    meter = FpsMeter(clock)
    meter.record([0], [0])
    assert all(math.isnan(fps) for fps in meter.fps())


def test_short_history_uses_what_exists(clock):
    meter = FpsMeter(clock)
    meter.record([0], [0])
    clock.advance(5)
    meter.record([1000], [250])
    assert meter.fps() == (200.0, 200.0, 200.0)


def test_each_window_sees_its_own_stretch_of_time(clock):
    # 100 s at 10 frames a second, then 50 s at 100, then 10 s at 1000.
    meter = FpsMeter(clock)
    frames = 0
    meter.record([0], [0])
    for speed, reports in ((10, 20), (100, 10), (1000, 2)):
        for _ in range(reports):
            clock.advance(5)
            frames += speed * 5
            meter.record([frames], [0])
    assert meter.fps() == pytest.approx((1000.0, 15_000 / 60, 16_000 / 160))


def test_speed_falls_to_zero_when_frames_stop_coming(clock):
    meter = FpsMeter(clock)
    for _ in range(4):
        meter.record([500], [500])
        clock.advance(5)
    assert meter.fps() == (0.0, 0.0, 0.0)


def test_a_late_record_does_not_change_the_speed(clock):
    meter = FpsMeter(clock)
    for seconds in (0.0, 5.0, 10.1):  # the second report came 0.1 s late
        clock.now = 1_000.0 + seconds
        meter.record([round(seconds * 100)], [0])
    assert meter.fps()[0] == pytest.approx(100.0)


def test_a_learner_that_went_back_to_its_checkpoint_is_not_negative_speed(clock):
    meter = FpsMeter(clock)
    meter.record([5000], [0])
    clock.advance(5)
    meter.record([3000], [0])
    assert meter.fps() == (0.0, 0.0, 0.0)


def test_fps_is_the_sum_over_policies_and_throughput_is_per_policy(clock):
    meter = FpsMeter(clock)
    meter.record([0, 0], [0, 0])
    clock.advance(10)
    meter.record([400, 800], [100, 200])
    assert meter.fps()[0] == 120.0
    assert (meter.policy_fps(0), meter.policy_fps(1)) == (40.0, 80.0)
    assert meter.throughput() == (10.0, 20.0)


def test_records_older_than_the_longest_window_are_forgotten(clock):
    meter = FpsMeter(clock)
    for second in range(0, 10_000, 5):
        meter.record([second * 7], [0])
        clock.advance(5)
    assert meter.fps() == (7.0, 7.0, 7.0)
    assert len(meter._records) <= 62

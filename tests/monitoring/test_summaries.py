import math

import pytest

from sample_factory.monitoring.event_file import EventFile, crc32c
from sample_factory.monitoring.metrics import append_metrics, read_metrics
from sample_factory.monitoring.reports import ComponentReport, EpisodeReport, TrainReport
from sample_factory.monitoring.statistics import EpisodeStatistics
from sample_factory.monitoring.summaries import (
    Summaries,
    component_scalars,
    episode_scalars,
    episodic_summary_due,
    train_summary_due,
    train_summary_period_sec,
    window_is_meaningful,
)


def read_events(directory):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    accumulator = event_accumulator.EventAccumulator(str(directory))
    accumulator.Reload()
    return accumulator


def read_scalars(directory):
    accumulator = read_events(directory)
    return {
        tag: [(event.step, event.value) for event in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["scalars"]
    }


@pytest.fixture
def summaries(tmp_path, clock):
    opened = Summaries(tmp_path, num_policies=2, flush_secs=20, clock=clock)
    yield opened
    opened.close()


def full_window(rewards, **extra):
    statistics = EpisodeStatistics(stats_avg=len(rewards))
    for reward in rewards:
        statistics.add(0, EpisodeReport(0, reward, 2 * reward, 100, extra))
    return statistics


@pytest.mark.parametrize(
    ("version", "seconds"),
    [(0, 5.0), (50_000, 62.5), (100_000, 120.0), (550_000, 180.0), (1_000_000, 240.0), (10**9, 240.0)],
)
def test_train_summaries_become_rarer_as_training_goes_on(version, seconds):
    assert train_summary_period_sec(version) == seconds


def test_a_train_summary_is_due_when_its_period_is_over():
    assert not train_summary_due(0, 4.9)
    assert train_summary_due(0, 5.0)
    assert not train_summary_due(100_000, 119.0)


def test_an_episodic_summary_is_due_after_the_interval():
    assert not episodic_summary_due(20, 19.9)
    assert episodic_summary_due(20, 20.0)


@pytest.mark.parametrize(
    ("count", "run_time_sec", "written"),
    [(100, 1.0, True), (99, 300.0, False), (11, 300.1, True), (10, 1e6, False)],
)
def test_a_window_is_written_when_full_or_in_a_long_run_with_rare_episodes(count, run_time_sec, written):
    assert window_is_meaningful(count, stats_avg=100, run_time_sec=run_time_sec) is written


def test_episodic_tags_are_those_of_v1():
    scalars = episode_scalars(full_window([1.0, 3.0], kills=4, z={"level": 5}), policy_id=0, run_time_sec=0)
    assert scalars == {
        "0_aux/avg_reward": 2.0,
        "0_aux/avg_reward_min": 1.0,
        "0_aux/avg_reward_max": 3.0,
        "0_aux/avg_true_reward": 4.0,
        "0_aux/avg_true_reward_min": 2.0,
        "0_aux/avg_true_reward_max": 6.0,
        "0_aux/avg_len": 100.0,
        "0_aux/avg_len_min": 100.0,
        "0_aux/avg_len_max": 100.0,
        "0_aux/avg_kills": 4.0,
        "z/level": 5.0,
    }


def test_component_tags_are_those_of_v1_averaged_over_workers():
    reports = [
        ComponentReport("rollout_worker_0", {"wait": 1.0, "step": 2.0}, 100.0),
        ComponentReport("rollout_worker_11", {"wait": 3.0, "step": 4.0}, 300.0),
        ComponentReport("policy_worker_0_1", {"wait": 0.5}, 50.0),
        ComponentReport("learner_0", {}, 700.0),
    ]
    assert component_scalars(reports) == {
        "stats/memory_actor": 200.0,
        "stats/wait_actor": 2.0,
        "stats/step_actor": 3.0,
        "stats/memory_policy_worker": 50.0,
        "stats/wait_policy": 0.5,
        "stats/memory_learner": 700.0,
    }


def test_tensorboard_reads_back_what_was_written(tmp_path, summaries):
    summaries.write_train(TrainReport(1, 10, 5000, {"loss": 0.25, "grad_norm": 4.0}))
    summaries.write_train(TrainReport(1, 20, 2**40, {"loss": -0.5}))
    summaries.close()
    assert read_scalars(tmp_path / ".summary" / "1") == {
        "train/loss": [(5000, 0.25), (2**40, -0.5)],
        "train/grad_norm": [(5000, 4.0)],
    }


def test_the_speed_of_the_session_goes_with_policy_0(tmp_path, summaries):
    summaries.write_speed([100, 200], fps=50.0, throughput=(5.0, 6.0), memory_mb=90.0)
    summaries.close()
    assert read_scalars(tmp_path / ".summary" / "0") == {
        "0_aux/_fps": [(100, 50.0)],
        "0_aux/master_process_memory_mb": [(100, 90.0)],
        "0_aux/_sample_throughput": [(100, 5.0)],
    }
    assert read_scalars(tmp_path / ".summary" / "1") == {"0_aux/_sample_throughput": [(200, 6.0)]}


def test_episode_windows_reach_tensorboard(tmp_path, summaries):
    summaries.write_episodes(0, 700, full_window([1.0, 3.0]), run_time_sec=0)
    summaries.close()
    assert read_scalars(tmp_path / ".summary" / "0")["0_aux/avg_reward"] == [(700, 2.0)]


def test_the_lag_histogram_reaches_tensorboard(tmp_path, summaries):
    summaries.write_train(TrainReport(0, 1, 64, {"loss": 1.0}, lag_histogram=[3, 0, 1]))
    summaries.close()
    (event,) = read_events(tmp_path / ".summary" / "0").Histograms("train/policy_lag")
    value = event.histogram_value
    assert (event.step, value.min, value.max, value.num, value.sum) == (64, 0.0, 2.0, 4.0, 2.0)
    assert list(value.bucket) == [3.0, 0.0, 1.0]


def test_values_beyond_32_bits_are_written_as_infinity(tmp_path, summaries):
    summaries.write(0, 1, {"train/loss": 1e300, "train/value": -1e300})
    summaries.close()
    scalars = read_scalars(tmp_path / ".summary" / "0")
    assert scalars == {"train/loss": [(1, math.inf)], "train/value": [(1, -math.inf)]}


def test_events_reach_the_disk_after_flush_secs(tmp_path, summaries, clock):
    summaries.write(0, 1, {"a/b": 1.0})
    assert read_scalars(tmp_path / ".summary" / "0") == {}
    clock.advance(20)
    summaries.write(0, 2, {"a/b": 2.0})
    assert read_scalars(tmp_path / ".summary" / "0") == {"a/b": [(1, 1.0), (2, 2.0)]}


def test_metrics_are_on_disk_at_once(tmp_path, summaries, clock):
    clock.now = 1234.5678
    summaries.write(1, 64, {"train/loss": 0.5, "0_aux/avg_reward": 2.0})
    expected = {"time": 1234.568, "env_steps": 64, "policy": 1, "train/loss": 0.5, "0_aux/avg_reward": 2.0}
    assert read_metrics(tmp_path / "metrics.jsonl") == [expected]


def test_a_resumed_session_adds_to_metrics_and_events(tmp_path, clock):
    for step in (1, 2):
        session = Summaries(tmp_path, num_policies=1, flush_secs=20, clock=clock)  # within the same second
        session.write(0, step, {"a/b": float(step)})
        session.close()
    assert [record["env_steps"] for record in read_metrics(tmp_path / "metrics.jsonl")] == [1, 2]
    assert read_scalars(tmp_path / ".summary" / "0") == {"a/b": [(1, 1.0), (2, 2.0)]}


def test_a_torn_last_line_is_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"env_steps": 1}\n{"env_steps": 2, "a')
    assert read_metrics(path) == [{"env_steps": 1}]


def test_writing_after_a_torn_line_loses_only_that_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"env_steps": 1}\n{"env_steps": 2, "a')
    append_metrics(path, {"env_steps": 3})
    assert read_metrics(path) == [{"env_steps": 1}, {"env_steps": 3}]


def test_metrics_stay_valid_json_when_a_value_is_not_a_number(tmp_path):
    path = tmp_path / "metrics.jsonl"
    append_metrics(path, {"env_steps": 1, "train/loss": math.nan, "train/value": math.inf})
    assert path.read_text() == '{"env_steps":1,"train/loss":null,"train/value":null}\n'


def test_a_run_without_metrics_has_none(tmp_path):
    assert read_metrics(tmp_path / "metrics.jsonl") == []


def test_trouble_with_the_disk_is_logged_once_and_never_raised(tmp_path, clock, log_lines):
    (tmp_path / ".summary").touch()  # a file where the directory should be: nothing below can be made
    (tmp_path / "metrics.jsonl").mkdir()
    summaries = Summaries(tmp_path, num_policies=1, flush_secs=0, clock=clock)
    for step in range(3):
        summaries.write(0, step, {"a/b": 1.0})
    summaries.close()
    assert [level for level, _ in log_lines()] == ["ERROR", "ERROR"]  # one for events, one for metrics


def test_metrics_go_on_while_events_cannot_be_written(tmp_path, clock):
    (tmp_path / ".summary").touch()
    summaries = Summaries(tmp_path, num_policies=1, flush_secs=0, clock=clock)
    summaries.write(0, 1, {"a/b": 1.0})
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == 1


def test_after_a_failed_flush_events_continue_in_a_new_file(tmp_path, clock, monkeypatch):
    summaries = Summaries(tmp_path, num_policies=1, flush_secs=100, clock=clock)

    def fail(self):
        raise OSError(28, "No space left on device")

    summaries.write(0, 1, {"a/b": 1.0})
    with monkeypatch.context() as patched:
        patched.setattr(EventFile, "flush", fail)
        summaries.flush()
    summaries.write(0, 2, {"a/b": 2.0})
    summaries.close()
    assert read_scalars(tmp_path / ".summary" / "0") == {"a/b": [(2, 2.0)]}


def test_the_checksum_is_crc32c():
    assert crc32c(b"123456789") == 0xE3069283  # the check value of the Castagnoli polynomial
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4

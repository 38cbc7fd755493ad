"""What --autotune prints, and how a probe is timed."""

import pytest

from sample_factory.algorithms.appo.autotune import Meter
from sample_factory.algorithms.appo.autotune_report import command_to_reuse, table, without_autotune
from sample_factory.algorithms.appo.autotune_search import Candidate
from sample_factory.config.config import Config
from sample_factory.config.parsing import parse_args
from sample_factory.config.validation import validate

START = ["python", "-m", "sample_factory.run_algorithm"]
SLOW = Candidate(2, 2, 2, "rollout_workers", 1)
FAST = Candidate(2, 64, 1, "rollout_workers", 1)


def test_the_table_shows_every_candidate_and_marks_the_chosen():
    lines = table({SLOW: 1234.4, FAST: 20000.0, Candidate(4, 64, 1, "policy_workers", 2): None}, FAST)
    lines = [line.split() for line in lines.splitlines()]
    assert lines[1] == ["2", "2", "2", "rollout_workers", "1", "1234"]
    assert lines[2] == ["2", "64", "1", "rollout_workers", "1", "20000", "<-", "chosen"]
    assert lines[3] == ["4", "64", "1", "policy_workers", "2", "-"]


def test_the_command_has_what_was_typed_and_what_was_chosen():
    argv = ["--algo=APPO", "--env=gym_CartPole-v1", "--num_workers=3", "--autotune"]
    cfg = parse_args(argv)
    tuned = Config.from_dict(cfg.to_dict() | FAST.settings() | {"num_workers": 3})
    words = command_to_reuse(cfg, tuned, [*START, *argv]).split()
    assert words[:3] == START
    again = parse_args(words[3:])
    assert (again.num_workers, again.num_envs_per_worker, again.worker_num_splits) == (3, 64, 1)
    assert (again.inference, again.learner_threads, again.autotune) == ("rollout_workers", 1, "off")
    assert words.count("--num_workers=3") == 1
    assert validate(again) == []


@pytest.mark.parametrize("typed", ["--autotune", "--autotune=only", "--autotune only", "--auto=on"])
def test_the_flag_itself_is_left_out_however_it_was_typed(typed):
    assert without_autotune(f"--algo=APPO {typed} --env=only".split()) == ["--algo=APPO", "--env=only"]


def test_the_bare_flag_means_on_and_nothing_means_off():
    base = ["--algo=APPO", "--env=gym_CartPole-v1"]
    assert parse_args([*base, "--autotune"]).autotune == "on"
    assert parse_args([*base, "--autotune", "only"]).autotune == "only"
    assert parse_args(base).autotune == "off"


def test_tuning_processes_of_a_serial_session_is_refused():
    cfg = parse_args(["--algo=APPO", "--env=gym_CartPole-v1", "--autotune", "--serial_mode=True"])
    assert [p for p in validate(cfg) if "--autotune=off" in p]


def test_speed_is_measured_between_ends_of_iterations():
    meter = Meter()
    for now, frames in [(0.0, 0), (1.0, 0), (2.0, 100), (3.0, 100), (4.0, 300), (5.0, 300), (6.0, 500)]:
        meter.note(now, frames)
    assert (meter.iterations, meter.seconds) == (2, 4.0)
    assert meter.fps == pytest.approx(100.0)


def test_a_probe_goes_on_until_it_has_seen_enough():
    meter = Meter()
    meter.note(10.0, 50)
    meter.note(11.0, 150)
    assert not meter.is_done(11.0, best_fps=0.0)
    meter.note(13.0, 350)
    assert meter.is_done(13.0, best_fps=0.0)


def test_a_probe_that_can_not_win_ends_early():
    meter = Meter()
    for now, frames in [(10.0, 50), (10.8, 130), (11.6, 210)]:
        meter.note(now, frames)
    assert not meter.is_done(11.6, best_fps=120.0)
    assert meter.is_done(11.6, best_fps=200.0)


def test_a_slow_probe_is_content_with_one_iteration():
    meter = Meter()
    meter.note(10.0, 50)
    meter.note(17.0, 150)
    assert not meter.is_done(17.5, best_fps=0.0)
    assert meter.is_done(18.0, best_fps=0.0)

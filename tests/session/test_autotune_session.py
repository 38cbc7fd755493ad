"""--autotune in a real session, with little time."""

import json
import signal

import pytest

from sample_factory.algorithms.appo import autotune
from sample_factory.algorithms.appo.exits import ExitStatus, Signals
from sample_factory.algorithms.appo.session import with_fast_settings
from sample_factory.config.precedence import resolve
from tests.session.running import child_pids, command_line, config, log_text, train

# With these typed only the learner's threads are left to tune, so that a search takes few probes.
TYPED = ("--inference=rollout_workers", "--worker_num_splits=2")


@pytest.fixture
def in_a_hurry(monkeypatch, tmp_path):
    """Short probes; returns the directory for temporary files."""
    monkeypatch.setattr(autotune, "MEASURE_SEC", 0.2)
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr("tempfile.tempdir", None)
    return directory


@pytest.mark.long
@pytest.mark.processes
def test_the_session_trains_with_what_was_found_and_keeps_what_was_typed(tmp_path, in_a_hurry):
    before = child_pids()
    flags = (*TYPED, "--autotune", "--train_for_env_steps=2000", "--seed=5")
    assert train(tmp_path, "double_counting", *flags) == ExitStatus.SUCCESS
    saved = json.loads((tmp_path / "experiment" / "cfg.json").read_text())
    assert (saved["num_workers"], saved["num_envs_per_worker"], saved["worker_num_splits"]) == (2, 4, 2)
    assert saved["learner_threads"] >= 1  # 0 when nobody has decided
    assert saved["benchmark"] is False
    text = log_text(tmp_path)
    kept = "--inference, --num_envs_per_worker, --num_workers, --worker_num_splits"
    assert f"kept as they are: {kept}." in text
    assert "<- chosen" in text and "The same without --autotune:" in text
    assert not list(in_a_hurry.glob("sf_autotune_*"))
    assert child_pids() <= before


def test_an_experiment_that_was_tuned_goes_on_as_it_is_when_resumed(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "cfg.json").write_text(json.dumps({"autotune": "on", "num_workers": 3}))
    cfg = resolve(config(tmp_path, "double_counting", "--autotune"))
    assert with_fast_settings(cfg, Signals()) is cfg


@pytest.mark.processes
def test_only_showing_leaves_no_experiment_behind(tmp_path, in_a_hurry, capsys):
    assert train(tmp_path, "double_counting", *TYPED, "--autotune=only") == ExitStatus.SUCCESS
    command = capsys.readouterr().out
    assert "--learner_threads=" in command and "--autotune" not in command
    assert not (tmp_path / "experiment").exists()


@pytest.mark.processes
def test_ctrl_c_while_tuning_leaves_nothing_behind(tmp_path, in_a_hurry, start_program):
    arguments = command_line(tmp_path, "gym_CartPole-v1", "--autotune", "--use_rnn=False")
    program = start_program(*arguments)
    program.wait_until(lambda: "frames/s" in program.output, "first probe")
    program.signal_group(signal.SIGINT)
    assert program.wait(30.0) == ExitStatus.INTERRUPTED
    program.assert_nothing_left()
    assert not list(in_a_hurry.glob("sf_autotune_*"))

"""The run record: what it holds, that it survives, that it never stops a training."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sample_factory.benchmark.run_record import (
    ALGO_LABEL_VARIABLE,
    RunFacts,
    RunRecord,
    RunStatus,
    begin_training,
    eval_result,
    strict_json,
    train_result,
)
from sample_factory.config.config import Config
from tests.benchmark.run_folders import FakeClock

FACTS = RunFacts(command="APPO", name="exp", mainfile="train.py", seed=3)


def run_json(directory: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((directory / "run.json").read_text())
    return content


def begin(directory: Path, clock: FakeClock, **config: Any) -> RunRecord:
    return RunRecord.begin(directory, {"env": "doom_basic", **config}, FACTS, clock=clock)


def test_a_run_that_has_begun_says_so(tmp_path: Path) -> None:
    begin(tmp_path, FakeClock())
    content = run_json(tmp_path)
    assert (content["status"], content["command"], content["result"]) == ("RUNNING", "APPO", None)


def test_config_json_names_the_environment_where_imitation_looks_for_it(tmp_path: Path) -> None:
    begin(tmp_path, FakeClock())
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["environment"], config["seed"]) == ({"gym_id": "doom_basic"}, 3)


def test_keys_are_sorted_as_sacred_sorts_them(tmp_path: Path) -> None:
    begin(tmp_path, FakeClock())
    keys = list(run_json(tmp_path))
    assert keys == sorted(keys)


def test_progress_is_written_at_most_every_thirty_seconds(tmp_path: Path) -> None:
    clock = FakeClock()
    record = begin(tmp_path, clock)
    clock.advance(29.0)
    record.update(env_steps=100, train_seconds=29.0)
    assert run_json(tmp_path)["progress"] is None
    clock.advance(1.0)
    record.update(env_steps=200, train_seconds=30.0, fps=6.7)
    expected = {"env_steps": 200, "train_seconds": 30.0, "fps_mean": 6.7}
    assert run_json(tmp_path)["progress"] == expected


def test_a_finished_run_has_status_result_and_exit_code(tmp_path: Path) -> None:
    record = begin(tmp_path, FakeClock())
    record.finish(RunStatus.COMPLETED, 0, result=eval_result([1.0, 3.0], [10, 20]))
    content = run_json(tmp_path)
    assert (content["status"], content["exit_code"], content["result"]["score"]) == ("COMPLETED", 0, 2.0)
    assert content["stop_time"] is not None


def test_a_failed_run_keeps_its_traceback_as_lines(tmp_path: Path) -> None:
    begin(tmp_path, FakeClock()).finish(RunStatus.FAILED, 1, fail_trace="Traceback\nValueError: x")
    assert run_json(tmp_path)["fail_trace"] == ["Traceback", "ValueError: x"]


def test_a_second_attempt_continues_the_record(tmp_path: Path) -> None:
    clock = FakeClock()
    first = begin(tmp_path, clock)
    first.update(env_steps=500, train_seconds=50.0)
    first.finish(RunStatus.TIMEOUT, 75)
    started = run_json(tmp_path)["start_time"]
    clock.advance(1000.0)
    second = begin(tmp_path, clock)
    second.update(env_steps=900, train_seconds=40.0)
    second.finish(RunStatus.COMPLETED, 0)
    content = run_json(tmp_path)
    assert (content["start_time"], content["job"]["attempt"]) == (started, 2)
    assert content["progress"]["train_seconds"] == 90.0


def test_the_score_of_an_earlier_attempt_stays_until_there_is_a_new_one(tmp_path: Path) -> None:
    begin(tmp_path, FakeClock()).finish(RunStatus.COMPLETED, 0, result=eval_result([5.0], [1]))
    begin(tmp_path, FakeClock()).finish(RunStatus.INTERRUPTED, 2)
    assert run_json(tmp_path)["result"]["score"] == 5.0


def test_secrets_stay_out_of_both_files(tmp_path: Path) -> None:
    facts = RunFacts(command="A", name="n", mainfile="m", params={"wandb_api_key": "hunter2"})
    RunRecord.begin(tmp_path, {"env": "e", "wandb_api_key": "hunter2"}, facts)
    assert "hunter2" not in (tmp_path / "run.json").read_text() + (tmp_path / "config.json").read_text()


def test_a_record_that_cannot_be_written_does_not_stop_the_run(tmp_path: Path) -> None:
    record = begin(tmp_path, FakeClock())
    record.directory = tmp_path / "run.json" / "is_a_file"
    record.finish(RunStatus.COMPLETED, 0)


def test_nan_becomes_null_because_json_has_none(tmp_path: Path) -> None:
    content = strict_json({"b": float("nan"), "a": np.array([1.0, np.inf]), "path": tmp_path})
    assert content == {"a": [1.0, None], "b": None, "path": str(tmp_path)}


def test_evaluation_statistics_rank_by_the_true_reward() -> None:
    result = eval_result([1.0, 2.0], [5, 7], true_returns=[10.0, 30.0])
    stats = result["imit_stats"]
    assert (result["score"], stats["return_mean"], stats["monitor_return_mean"]) == (20.0, 1.5, 20.0)
    assert (stats["monitor_return_std"], stats["len_max"], stats["n_traj"]) == (10.0, 7.0, 2)


def test_training_without_a_finished_episode_has_no_result() -> None:
    assert train_result(float("nan"), 0, low=0.0, high=0.0) is None


def test_a_training_session_is_recorded_from_its_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ALGO_LABEL_VARIABLE, raising=False)
    cfg = Config(
        algo="APPO",
        env="doom_basic",
        experiment="00_exp",
        experiments_root="my_run/group_",
        seed=7,
        serial_mode=True,
        cli_args={"env": "doom_basic", "seed": 7},
        command_line="--env=doom_basic --seed=7",
    )
    begin_training(cfg, tmp_path)
    content = run_json(tmp_path)
    assert (content["command"], content["experiment"]["run_name"]) == ("APPO", "my_run")
    assert content["meta"]["params"] == {"env": "doom_basic", "seed": 7}
    assert content["meta"]["determinism"] == "full"


def test_a_suite_labels_configurations_of_one_algorithm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALGO_LABEL_VARIABLE, "APPO_nornn")
    cfg = Config(algo="APPO", env="e", experiment="x", seed=None)
    begin_training(cfg, tmp_path)
    assert run_json(tmp_path)["command"] == "APPO_nornn"


def test_recording_and_reading_do_not_import_torch() -> None:
    modules = "sample_factory.benchmark.__main__, sample_factory.benchmark.run_record"
    commands = ", ".join(
        f"sample_factory.benchmark.commands.{name}_command"
        for name in ("run", "wrap", "summary", "compare", "plot", "report", "status", "export")
    )
    program = (
        f"import sys, {modules}, {commands}; print([m for m in ('torch', 'matplotlib') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"

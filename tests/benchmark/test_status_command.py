"""`status`: states, progress, last words, exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sample_factory.benchmark import number_format as text
from sample_factory.benchmark.commands import main
from sample_factory.benchmark.errors import ExitCode
from sample_factory.benchmark.run_record import RunStatus, iso_time
from sample_factory.benchmark.status import output_file
from tests.benchmark.run_folders import write_run


def test_completed_runs_are_exit_code_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "a")
    assert main(["status", str(tmp_path)]) == ExitCode.OK
    assert "1 runs: 1 COMPLETED" in capsys.readouterr().out


def test_a_failed_run_is_exit_code_one_with_its_last_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_run(tmp_path / "a", score=None, status=RunStatus.FAILED)
    (directory / "cout.txt").write_text("training\nValueError: no display\n")
    assert main(["status", str(tmp_path)]) == ExitCode.RUN_FAILED
    assert f"{directory}: ValueError: no display" in capsys.readouterr().out


def test_a_running_run_shows_its_share_and_time_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_run(tmp_path / "a", score=None, config={"train_for_env_steps": 4_000_000})
    record = json.loads((directory / "run.json").read_text())
    record |= {"status": "RUNNING", "heartbeat": iso_time(4e9)}
    record["progress"] = {"env_steps": 1_000_000, "train_seconds": 60.0, "fps_mean": 1000.0}
    (directory / "run.json").write_text(json.dumps(record))
    main(["status", str(tmp_path)])
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[3:9] == ["RUNNING", "1.0M", "25%", "1.0k", "1m", "00s"]
    assert row[9:11] == ["50m", "00s"]


def test_the_output_is_found_in_the_runners_logs(tmp_path: Path) -> None:
    directory = write_run(tmp_path / "suite" / "APPO_" / "00_exp")
    (tmp_path / "suite" / "manifest.json").touch()
    log = tmp_path / "suite" / "logs" / "00_exp.log"
    log.parent.mkdir()
    log.touch()
    assert output_file(directory) == log


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(9.4, "9s"), (725.0, "12m 05s"), (11_220.0, "3h 07m"), (183_600.0, "2d 03h"), (None, "n/a")],
)
def test_durations_are_readable(seconds: float | None, expected: str) -> None:
    assert text.duration(seconds) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(999, "999"), (20_000, "20.0k"), (1_500_000, "1.5M"), (2e9, "2.0B")]
)
def test_counts_are_readable(value: float, expected: str) -> None:
    assert text.count(value) == expected

"""What users see, and the record it comes from."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from sample_factory.runner.display import counts, rich_table, summary, text_table
from sample_factory.runner.errors import RunnerError
from sample_factory.runner.manifest import Attempt, JobRecord, Manifest, State
from tests.runner.launching import LAUNCHER, Project


def record(name: str, state: State, error: str = "", attempts: int = 1) -> JobRecord:
    tried = [
        Attempt(number + 1, "processes", id="77", gpu="2", log="x.log", start=0, stop=3725)
        for number in range(attempts)
    ]
    return JobRecord(name, 0, name, "run/x_", ["true"], state=state, error=error, attempts=tried)


def test_a_table_is_aligned_and_ends_in_the_reason() -> None:
    lines = text_table([record("a", State.FAILED, "ValueError: 3"), record("bcd", State.QUEUED, attempts=0)])
    assert lines == [
        "job  state   attempts  where               time     reason",
        "a    FAILED  1         processes 77 gpu 2  1:02:05  ValueError: 3",
        "bcd  QUEUED  0",
    ]


def test_counts_name_only_states_that_occur() -> None:
    assert counts([record("a", State.COMPLETED), record("b", State.FAILED), record("c", State.FAILED)]) == (
        "1 completed, 2 failed"
    )


def test_the_summary_lists_everything_that_did_not_complete() -> None:
    lines = summary(
        [record("a", State.COMPLETED), record("b", State.FAILED, "boom"), record("c", State.TIMEOUT, "late")]
    )
    assert lines == [
        "3 jobs: 1 completed, 1 failed, 1 timeout",
        "  FAILED b: boom (log: x.log)",
        "  TIMEOUT c: late (log: x.log)",
    ]


def test_a_small_screen_shows_failures_and_running_jobs_first() -> None:
    records = [record(f"done{index}", State.COMPLETED) for index in range(50)]
    records += [record("running", State.RUNNING), record("failed", State.FAILED)]
    table = rich_table(records, num_rows=3)
    assert [str(cell) for cell in table.columns[0]._cells] == ["failed", "running", "done0"]


def test_a_terminal_gets_a_live_table_with_the_reason_of_a_failure(project: Project) -> None:
    project.describe('"fail", "python -c \'raise ValueError(42)\'"', '"ok", "true"')
    controller, terminal = pty.openpty()
    launcher = subprocess.Popen(
        [*LAUNCHER, "--run=run.py", "--pause_between=0"],
        cwd=project.directory,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "40"},
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    shown = b""
    try:
        while chunk := os.read(controller, 4096):
            shown += chunk
    except OSError:  # how Linux reports that the other end is closed
        pass
    os.close(controller)
    assert launcher.wait(30) == 1
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "FAILED 00_fail: ValueError: 42 (exit code 1)" in text
    assert "attempts" in text and "┃" in text


def test_a_manifest_survives_being_saved_and_loaded(tmp_path: Path) -> None:
    manifest = Manifest.create(tmp_path / "manifest.json", ["--run=x"])
    manifest.records = {"a": record("a", State.FAILED, "boom", attempts=2)}
    manifest.save()
    loaded = Manifest.load(tmp_path / "manifest.json")
    assert loaded.records == manifest.records
    assert loaded.header == manifest.header
    assert loaded.records["a"].state is State.FAILED


def test_a_manifest_of_a_newer_launcher_can_still_be_read(tmp_path: Path) -> None:
    manifest = Manifest.create(tmp_path / "manifest.json", [])
    manifest.records = {"a": record("a", State.COMPLETED)}
    manifest.save()
    content = json.loads(manifest.path.read_text())
    content["jobs"][0]["new_field"] = 1
    content["jobs"][0]["attempts"][0]["another"] = 2
    manifest.path.write_text(json.dumps(content))
    assert Manifest.load(manifest.path).records == manifest.records


def test_a_file_that_is_no_manifest_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text('{"format": "something/2", "jobs": []}')
    with pytest.raises(RunnerError, match="its format is 'something/2'"):
        Manifest.load(path)

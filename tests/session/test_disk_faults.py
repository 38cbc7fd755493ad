"""Full, read-only and damaging disks: training goes on, and nothing good is lost or begun afresh."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sample_factory.algorithms.appo.exits import ExitStatus
from sample_factory.model.checkpoints import load_checkpoint
from sample_factory.model.durable_files import TEMPORARY_PREFIX
from tests.session.conftest import StartProgram
from tests.session.running import (
    FEED_FORWARD,
    Program,
    command_line,
    latest,
    log_text,
    train,
    train_serially,
)

pytestmark = pytest.mark.processes

ENV = "gym_CartPole-v1"
KEPT = 3  # checkpoints; while there are more, the oldest is about to be deleted
ENDLESS = "--train_for_env_steps=1000000000"
FULL = "No space left on device"
READ_ONLY = "Read-only file system"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"needs the right to mount a file system: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def _fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return filler


def _fill_between_saves(program: Program, disk: Path) -> Path:
    """Fills the disk for good: a file half written meanwhile would be given up and leave its room."""
    while True:
        program.signal_group(signal.SIGSTOP)
        time.sleep(0.05)  # until all have stopped
        if not list(disk.rglob(f"{TEMPORARY_PREFIX}*")) and len(_checkpoints(disk)) <= KEPT:
            break
        program.signal_group(signal.SIGCONT)
        time.sleep(0.05)
    filler = _fill(disk)
    program.signal_group(signal.SIGCONT)
    return filler


def _checkpoints(train_dir: Path) -> dict[str, bytes]:
    folder = train_dir / "experiment" / "checkpoint_p0"
    return {path.name: path.read_bytes() for path in folder.glob("checkpoint_*")}


def _start(start_program: StartProgram, train_dir: Path, *flags: str) -> Program:
    program = start_program(
        *command_line(
            train_dir, ENV, *FEED_FORWARD, "--save_every_sec=1", f"--keep_checkpoints={KEPT}", *flags
        )
    )
    program.wait_until(lambda: _checkpoints(train_dir), "the first checkpoint")
    return program


def test_a_full_disk_stops_saving_not_training_and_saving_goes_on_when_there_is_room(
    small_disk: Path, start_program: StartProgram
):
    program = _start(start_program, small_disk, ENDLESS)
    filler = _fill_between_saves(program, small_disk)
    program.wait_until(lambda: f"can't be written ({FULL})" in program.output, "a save that fails")
    before = latest(small_disk)
    assert program.process.poll() is None
    filler.unlink()
    program.wait_until(
        lambda: latest(small_disk).policy_version > before.policy_version, "a save that succeeds"
    )
    program.signal_group(signal.SIGTERM)
    assert program.wait(60) == ExitStatus.REQUEUE
    program.assert_nothing_left()


def test_a_run_whose_last_save_fails_is_not_complete_and_keeps_what_was_saved(
    small_disk: Path, start_program: StartProgram
):
    program = _start(start_program, small_disk, "--train_for_seconds=6")
    _fill_between_saves(program, small_disk)
    program.wait_until(lambda: f"can't be written ({FULL})" in program.output, "a save that fails")
    before = _checkpoints(small_disk)
    assert program.wait(60) == ExitStatus.FAILURE
    last_line = program.output.rstrip().splitlines()[-1]
    assert last_line.startswith("The session has failed: what learner_0 learned last is not saved:")
    assert FULL in last_line
    assert _checkpoints(small_disk) == before
    assert not (small_disk / "experiment" / "done").exists()


@pytest.mark.parametrize("state", ["full", "read-only"])
def test_a_run_is_not_started_where_nothing_can_be_written(
    small_disk: Path, start_program: StartProgram, state: str
):
    _fill(small_disk)
    if state == "read-only":  # nothing may be open for writing there
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    program = start_program(*command_line(small_disk, ENV, *FEED_FORWARD, ENDLESS))
    assert program.wait(60) == 2
    assert "Traceback" not in program.output
    assert "--train_dir" in program.output or "--experiment" in program.output
    assert (FULL if state == "full" else READ_ONLY) in program.output


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _flip_a_bit(path: Path) -> None:
    """In the middle of the largest weight: a file has padding, where a bit changes nothing."""
    tensors = load_checkpoint(path).state["model"].values()
    weight = max(tensors, key=lambda tensor: tensor.numel()).numpy().tobytes()
    data = bytearray(path.read_bytes())
    data[data.index(weight) + len(weight) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [_truncate, _flip_a_bit], ids=["truncated", "one bit flipped"])
def test_a_run_goes_back_to_the_newest_checkpoint_that_is_whole(
    tmp_path: Path, damage: Callable[[Path], None]
):
    train_serially(tmp_path, ENV, *FEED_FORWARD, "--train_for_env_steps=300")
    good = latest(tmp_path)
    train_serially(tmp_path, ENV, *FEED_FORWARD, "--train_for_env_steps=600")
    damage(latest(tmp_path).path)
    train_serially(tmp_path, ENV, *FEED_FORWARD, "--train_for_env_steps=900")
    text = log_text(tmp_path)
    assert "DAMAGED CHECKPOINT" in text
    assert f"Policy 0 resumes at version {good.policy_version} with {good.env_steps} frames." in text
    assert text.count("starts from scratch") == 1


def test_a_run_with_damaged_checkpoints_only_ends_instead_of_starting_from_scratch(tmp_path: Path):
    train_serially(tmp_path, ENV, *FEED_FORWARD, "--train_for_env_steps=300")
    for name in _checkpoints(tmp_path):
        _truncate(tmp_path / "experiment" / "checkpoint_p0" / name)
    flags = (*FEED_FORWARD, "--serial_mode=False", "--train_for_env_steps=600")
    assert train(tmp_path, ENV, *flags) is ExitStatus.FAILURE
    text = log_text(tmp_path)
    assert "are damaged" in text.splitlines()[-1]
    assert "--restart_behavior=restart" in text.splitlines()[-1]
    assert text.count("starts from scratch") == 1
    assert all(".damaged" in name for name in _checkpoints(tmp_path))


def test_a_time_limit_of_the_scheduler_saves_and_asks_for_a_requeue(tmp_path: Path):
    flags = (*FEED_FORWARD, ENDLESS, "--execution_time=1")
    assert train_serially(tmp_path, ENV, *flags) is ExitStatus.REQUEUE
    first = latest(tmp_path)
    assert not (tmp_path / "experiment" / "done").exists()
    assert train_serially(tmp_path, ENV, *flags) is ExitStatus.REQUEUE
    assert f"Policy 0 resumes at version {first.policy_version}" in log_text(tmp_path)

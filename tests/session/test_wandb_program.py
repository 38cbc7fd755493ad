"""Weights & Biases in whole sessions: with the real package offline, and with packages that fail."""

from __future__ import annotations

import json
import os
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from sample_factory.algorithms.appo.exits import ExitStatus
from sample_factory.monitoring import wandb_run
from tests.session.running import (
    FEED_FORWARD,
    SERIAL,
    Program,
    command_line,
    latest,
    log_text,
    train_serially,
)

KEY = "5ec4e7" * 6 + "abcd"


@pytest.mark.processes
@pytest.mark.slow
def test_an_offline_run_gets_checkpoints_is_resumed_and_never_tells_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    wandb_flags = ("--with_wandb=True", "--wandb_save_checkpoints=last", "--wandb_tags", "a", "b")
    ids, outputs = [], []
    for frames in (64, 256):
        flags = (*FEED_FORWARD, *SERIAL, f"--train_for_env_steps={frames}", *wandb_flags)
        program = Program(command_line(tmp_path, "gym_CartPole-v1", *flags), tmp_path)
        commands = [" ".join(process.cmdline()) for process in program.family()]
        assert program.wait() == 0, program.output
        ids.append(json.loads((tmp_path / "experiment" / "cfg.json").read_text())["wandb_unique_id"])
        outputs.append(program.output + "".join(commands))
    assert ids[0] == ids[1]
    runs = sorted((tmp_path / "experiment" / "wandb").glob("offline-run-*"))
    assert [run.name.endswith(f"-{ids[0]}") for run in runs] == [True, True]
    uploaded = [list((run / "files" / "checkpoint_p0").iterdir()) for run in runs]
    assert [len(files) for files in uploaded] == [1, 1]
    last = latest(tmp_path).path
    assert uploaded[1][0].name == last.name > uploaded[0][0].name
    assert uploaded[1][0].read_bytes() == last.read_bytes()
    assert all((run / "files" / "cfg.json").exists() for run in runs)
    assert not [name for name in outputs if KEY in name]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in written if KEY.encode() in path.read_bytes()]


class Failing:
    """A run that fails in one of the things that are asked of it."""

    url = "http://localhost/run"

    def __init__(self, failing: str, directory: Path) -> None:
        self.dir = str(directory)
        self._failing = failing

    def _do(self, name: str) -> None:
        if name == self._failing:
            raise OSError(f"{name} failed")

    def define_metric(self, *names: Any, **more: Any) -> None:
        self._do("define_metric")

    def log(self, record: Any) -> None:
        self._do("log")

    def save(self, path: str, **more: Any) -> None:
        self._do("save")

    def finish(self) -> None:
        self._do("finish")


def stand_in(monkeypatch: pytest.MonkeyPatch, init: Any) -> None:
    module: Any = types.ModuleType("wandb")
    module.Error = type("Error", (Exception,), {})
    module.Settings = dict
    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)


def train(tmp_path: Path) -> ExitStatus:
    flags = (*FEED_FORWARD, "--with_wandb=True", "--wandb_save_checkpoints=all")
    return train_serially(tmp_path, "gym_CartPole-v1", *flags, "--train_for_env_steps=128")


@pytest.mark.parametrize("failing", ["define_metric", "log", "save", "finish"])
def test_a_run_that_fails_does_not_stop_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    stand_in(monkeypatch, lambda **arguments: Failing(failing, tmp_path / "files"))
    assert train(tmp_path) == ExitStatus.SUCCESS
    assert f"Weights & Biases is left out: {failing} failed. Training goes on." in log_text(tmp_path)


def test_a_service_that_hangs_delays_the_end_for_a_limited_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    stand_in(monkeypatch, lambda **arguments: released.wait(60.0))
    monkeypatch.setattr(wandb_run, "CLOSE_TIMEOUT_SEC", 0.1)
    assert train(tmp_path) == ExitStatus.SUCCESS
    released.set()
    assert "Weights & Biases did not finish in time" in log_text(tmp_path)


def test_a_key_in_a_message_of_the_service_is_blanked_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**arguments: Any) -> None:
        raise ValueError(f"api_key={os.environ['WANDB_API_KEY']} is not valid")

    monkeypatch.setenv("WANDB_API_KEY", KEY)
    stand_in(monkeypatch, init)
    assert train(tmp_path) == ExitStatus.SUCCESS
    assert "Weights & Biases is left out: " in log_text(tmp_path)
    written = [path for path in (tmp_path / "experiment").rglob("*") if path.is_file()]
    assert not [path for path in written if KEY.encode() in path.read_bytes()]

"""A session that records to Weights & Biases goes on in the same run when it is resumed."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from sample_factory.algorithms.appo.exits import ExitStatus
from tests.session.running import FEED_FORWARD, train_serially


class Run:
    url = "http://localhost/run"

    def __init__(self, directory: Path) -> None:
        self.dir = str(directory)
        self.saved: list[str] = []

    def log(self, record: Any) -> None:
        pass

    def define_metric(self, *names: Any, **more: Any) -> None:
        pass

    def save(self, path: str, **more: Any) -> None:
        self.saved.append(Path(path).name)

    def finish(self) -> None:
        pass


def test_a_resumed_session_continues_its_run_and_uploads_its_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    run = Run(tmp_path / "files")
    module: Any = types.ModuleType("wandb")
    module.Error = type("Error", (Exception,), {})
    module.Settings = dict
    module.init = lambda **arguments: asked.append(arguments) or run
    monkeypatch.setitem(sys.modules, "wandb", module)
    flags = (*FEED_FORWARD, "--with_wandb=True", "--wandb_save_checkpoints=last")
    for frames in (64, 256):
        status = train_serially(tmp_path, "gym_CartPole-v1", *flags, f"--train_for_env_steps={frames}")
        assert status == ExitStatus.SUCCESS
    first, second = asked
    assert first["id"] == second["id"]
    assert first["id"].startswith("experiment_")
    assert (first["group"], second["resume"]) == ("gym_CartPole-v1", "allow")
    assert [name for name in run.saved if name != "cfg.json"] == sorted(set(run.saved) - {"cfg.json"})
    assert len(run.saved) == 4

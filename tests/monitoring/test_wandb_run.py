"""Weights & Biases gets the scalars, and whatever it does costs nothing but them."""

import os
import subprocess
import sys
import types
from dataclasses import replace

import pytest

from sample_factory.monitoring import wandb_run
from sample_factory.monitoring.wandb_checkpoints import CheckpointUploads
from sample_factory.monitoring.wandb_run import WandbRun, WandbSettings, new_unique_id


def make_settings(directory):
    return WandbSettings(
        unique_id=new_unique_id("exp"),
        name="exp",
        entity=None,
        project="tests",
        group="env",
        job_type="SF",
        tags=["a", "b"],
        directory=directory,
        config={"batch_size": 32},
    )


def test_ids_begin_with_the_experiment_and_differ():
    first, second = new_unique_id("exp"), new_unique_id("exp")
    assert first.startswith("exp_")
    assert first != second


OFFLINE_RUN = """
import sys
from pathlib import Path
from sample_factory.monitoring.summaries import Summaries
from sample_factory.monitoring.wandb_run import WandbRun, WandbSettings

directory = Path(sys.argv[1])
(directory / "checkpoint_p0").mkdir()
(directory / "checkpoint_p0" / "best_000000001_64_reward_1.500.pth").write_bytes(b"weights")
(directory / "cfg.json").write_text("{}")
settings = WandbSettings(
    "exp_1", "exp", None, "tests", "env", "SF", ["a"], directory, {"batch_size": 32}, checkpoints="best"
)
summaries = Summaries(directory, 1, 1.0, also=WandbRun(settings))
summaries.write(0, 100, {"0_aux/avg_reward": 1.5})
summaries.close()
"""


def test_an_offline_run_is_written_with_the_real_package(tmp_path):
    pytest.importorskip("wandb")
    # In a process of its own: wandb leaves a service and environment variables behind.
    key = "0123456789abcdef" * 2 + "01234567"
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_API_KEY": key}
    command = [sys.executable, "-c", OFFLINE_RUN, str(tmp_path)]
    subprocess.run(command, env=environment, check=True, timeout=120)
    written = list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert len(written) == 1
    assert written[0].stat().st_size > 0
    files = next(tmp_path.glob("wandb/offline-run-*/files"))
    assert (files / "checkpoint_p0" / "best_000000001_64_reward_1.500.pth").read_bytes() == b"weights"
    assert (files / "cfg.json").exists()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]


class FakeRun:
    url = "http://localhost/run"

    def __init__(self, directory=""):
        self.dir = str(directory)
        self.logged = []
        self.saved = []
        self.axes = {}
        self.finished = False

    def define_metric(self, name, step_metric=None):
        self.axes[name] = step_metric

    def save(self, path, base_path, policy):
        self.saved.append((os.path.relpath(path, base_path), policy))

    def log(self, record):
        self.logged.append(record)

    def finish(self):
        self.finished = True


def fake_wandb(monkeypatch, init):
    module = types.ModuleType("wandb")
    module.Error = type("Error", (Exception,), {})
    module.Settings = lambda **settings: settings
    module.init = lambda **arguments: init(module, arguments)
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_scalars_carry_the_steps_of_their_policy(tmp_path, monkeypatch):
    run = FakeRun()
    fake_wandb(monkeypatch, lambda module, arguments: run)
    wandb = WandbRun(make_settings(tmp_path))
    wandb.log(0, 10, {"train/loss": 0.5})
    wandb.log(1, 20, {"train/loss": 0.7})
    wandb.close()
    assert run.logged == [
        {"train/loss": 0.5, "env_steps": 10},
        {"policy_1/train/loss": 0.7, "policy_1/env_steps": 20},
    ]
    assert run.finished
    assert run.axes == {
        "env_steps": None,
        "*": "env_steps",
        "policy_1/env_steps": None,
        "policy_1/*": "policy_1/env_steps",
    }


def test_the_run_goes_offline_when_the_service_cannot_be_reached(tmp_path, monkeypatch):
    modes = []

    def init(module, arguments):
        modes.append(arguments["mode"])
        if arguments["mode"] is None:
            raise module.Error("no network")
        return FakeRun()

    fake_wandb(monkeypatch, init)
    WandbRun(make_settings(tmp_path)).close()
    assert modes == [None, "offline"]


def test_a_failure_is_logged_and_nothing_else(tmp_path, monkeypatch, caplog):
    def init(module, arguments):
        raise ValueError("broken")

    fake_wandb(monkeypatch, init)
    run = WandbRun(make_settings(tmp_path))
    run.log(0, 1, {"a": 1.0})
    run.close()
    assert "Weights & Biases is left out: broken" in caplog.text


def test_logging_never_waits_for_a_run_that_does_not_start(tmp_path, monkeypatch):
    import threading

    release = threading.Event()

    def init(module, arguments):
        release.wait(30)
        return FakeRun()

    fake_wandb(monkeypatch, init)
    monkeypatch.setattr(wandb_run, "MAX_QUEUED", 10)
    run = WandbRun(make_settings(tmp_path))
    for step in range(100):
        run.log(0, step, {"a": 1.0})
    release.set()


def test_the_same_id_is_asked_to_resume(tmp_path, monkeypatch):
    asked = {}
    fake_wandb(monkeypatch, lambda module, arguments: asked.update(arguments) or FakeRun())
    settings = make_settings(tmp_path)
    WandbRun(settings).close()
    assert asked["id"] == settings.unique_id
    assert asked["resume"] == "allow"


CHECKPOINTS = (
    "checkpoint_p0/best_000000002_128_reward_2.000.pth",
    "checkpoint_p0/checkpoint_000000001_64.pth",
    "checkpoint_p0/checkpoint_000000002_128.pth",
    "checkpoint_p1/checkpoint_000000001_64.pth",
)


@pytest.mark.parametrize(
    ("kind", "uploaded"),
    [
        ("none", []),
        ("best", [0]),
        ("last", [2, 3]),
        ("all", [0, 1, 2, 3]),
    ],
)
def test_checkpoints_are_uploaded_as_asked_with_their_settings(tmp_path, monkeypatch, kind, uploaded):
    experiment = tmp_path / "exp"
    for name in ("cfg.json", *CHECKPOINTS):
        (experiment / name).parent.mkdir(parents=True, exist_ok=True)
        (experiment / name).write_text(name)
    run = FakeRun(tmp_path / "files")
    fake_wandb(monkeypatch, lambda module, arguments: run)
    WandbRun(replace(make_settings(experiment), checkpoints=kind)).close()
    names = ["cfg.json", *(CHECKPOINTS[number] for number in uploaded)] if uploaded else []
    assert run.saved == [(name, "now") for name in names]
    assert all((tmp_path / "files" / name).read_text() == name for name in names)


def test_the_best_checkpoint_goes_while_training_and_each_one_once(tmp_path):
    best = tmp_path / "exp" / CHECKPOINTS[0]
    best.parent.mkdir(parents=True)
    best.touch()
    (tmp_path / "exp" / "cfg.json").touch()
    run, uploads = FakeRun(tmp_path / "files"), CheckpointUploads(tmp_path / "exp", "best")
    uploads.hand_over(run, is_end=False)
    uploads.hand_over(run, is_end=True)
    assert [name for name, _ in run.saved] == ["cfg.json", CHECKPOINTS[0]]

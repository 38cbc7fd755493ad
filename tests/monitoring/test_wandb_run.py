"""Weights & Biases gets the scalars, and whatever it does costs nothing but them."""

import os
import subprocess
import sys
import types

import pytest

from sample_factory.monitoring import wandb_run
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
settings = WandbSettings("exp_1", "exp", None, "tests", "env", "SF", ["a"], directory, {"batch_size": 32})
summaries = Summaries(directory, 1, 1.0, also=WandbRun(settings))
summaries.write(0, 100, {"0_aux/avg_reward": 1.5})
summaries.close()
"""


def test_an_offline_run_is_written_with_the_real_package(tmp_path):
    pytest.importorskip("wandb")
    # In a process of its own: wandb leaves a service and environment variables behind.
    environment = {**os.environ, "WANDB_MODE": "offline"}
    command = [sys.executable, "-c", OFFLINE_RUN, str(tmp_path)]
    subprocess.run(command, env=environment, check=True, timeout=120)
    written = list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert len(written) == 1
    assert written[0].stat().st_size > 0


class FakeRun:
    url, dir = "http://localhost/run", ""

    def __init__(self):
        self.logged = []
        self.finished = False

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

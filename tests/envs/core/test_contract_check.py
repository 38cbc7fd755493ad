"""The check that families' tests rely on notices what it should."""

import subprocess
import sys
import threading
import uuid
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sample_factory.envs.registry import register_env, temporary_registrations
from tests.doubles import CountingEnv
from tests.envs import leftovers
from tests.envs.contract_check import check_env


class Faulty(CountingEnv):
    """A counting environment with one result replaced."""

    def __init__(self, **replaced):
        super().__init__()
        self.replaced = replaced

    def step(self, action):
        names = ("obs", "reward", "terminated", "truncated", "info")
        result = dict(zip(names, super().step(action), strict=True)) | self.replaced
        return tuple(result[name] for name in names)


@pytest.mark.parametrize(
    "replaced",
    [
        {"obs": np.zeros(2, np.float32)},
        {"obs": np.array([-1.0], np.float32)},
        {"reward": float("nan")},
        {"terminated": 1},
        {"truncated": None},
        {"info": None},
        {"info": {"num_frames": -1}},
        {"info": {"is_active": "yes"}},
        {"terminated": True, "info": {"true_reward": float("inf")}},
    ],
)
def test_a_broken_step_is_noticed(replaced):
    with temporary_registrations():
        register_env("faulty_", lambda name: Faulty(**replaced))
        with pytest.raises(AssertionError):
            check_env("faulty_env", steps=12)


def test_an_environment_that_ignores_its_seed_is_noticed():
    class Unseeded(CountingEnv):
        def step(self, action):
            obs, _, terminated, truncated, info = super().step(action)
            return obs, float(np.random.default_rng().random()), terminated, truncated, info

    with temporary_registrations():
        register_env("unseeded_", lambda name: Unseeded())
        with pytest.raises(AssertionError, match="the same seed gave different rewards"):
            check_env("unseeded_env", steps=12, reproducible=True)


class Untidy(CountingEnv):
    """Does something on its first reset that closing it does not undo."""

    def __init__(self, mess):
        super().__init__()
        self.mess = mess

    def reset(self, *, seed=None, options=None):
        self.mess()
        return super().reset(seed=seed)


def untidy(mess, name):
    return Untidy(mess)


def leave_a_file():
    Path("litter").touch()


def leave_shared_memory(name):
    (leftovers.SHARED_MEMORY / name).touch()


@pytest.fixture
def mess():
    """Ways to leave something behind, cleared away after the test."""
    name, stop, started = f"leftovers_{uuid.uuid4().hex}", threading.Event(), []

    def leave_a_thread():
        threading.Thread(target=stop.wait, name="left_thread").start()

    def leave_a_process():
        started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))

    yield {
        "left_thread": leave_a_thread,
        "process": leave_a_process,
        name: lambda: leave_shared_memory(name),
        "working directory": leave_a_file,
    }
    stop.set()
    (leftovers.SHARED_MEMORY / name).unlink(missing_ok=True)
    for process in started:
        process.kill()
        process.communicate()


def test_whatever_an_environment_leaves_behind_is_noticed(mess, monkeypatch):
    monkeypatch.setattr(leftovers, "GRACE_SEC", 0.0)
    for named, make_mess in mess.items():
        with temporary_registrations():
            register_env("untidy_", partial(untidy, make_mess))
            with pytest.raises(AssertionError, match=named):
                check_env("untidy_env", steps=1)

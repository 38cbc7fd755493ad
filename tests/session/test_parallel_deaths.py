"""Workers are killed in the middle of training: it goes on where it can, and ends cleanly where it cannot."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from sample_factory.algorithms.appo import session
from sample_factory.algorithms.appo.exits import ExitStatus
from sample_factory.algorithms.appo.progress import Progress
from sample_factory.monitoring.log import close_logging
from sample_factory.processes.supervision import Death, Supervisor
from tests.session.running import FEED_FORWARD, child_pids, latest, log_text, train

pytestmark = pytest.mark.processes

TARGET = "--train_for_env_steps=3000"
FRAMES_AFTER_DEATHS = 2000


class KillingSupervisor(Supervisor):
    """Kills workers, one after another, each when all workers are up and the last death was noticed."""

    victims: ClassVar[list[str]] = []
    deaths: ClassVar[list[Death]] = []
    kills = 0

    def check(self) -> list[Death]:
        noticed = len(self.deaths) == self.kills
        if noticed and self.victims and self.all_started() and self.victims[0] in self.pids():
            self.kills += 1
            os.kill(self.pids()[self.victims.pop(0)], signal.SIGKILL)
        found = super().check()
        self.deaths.extend(found)
        return found


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = child_pids()  # other tests' services may live as long as the whole test run
    yield
    assert not child_pids() - before


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch):
    """Names the workers that shall be killed in the next session, which goes on until some time after."""
    monkeypatch.setattr(session, "Supervisor", KillingSupervisor)
    is_done = session.Session._is_done
    frames_at_last_death: list[int] = []

    def choose(*names: str) -> None:
        KillingSupervisor.victims[:] = names
        KillingSupervisor.deaths[:] = []

        def is_done_after_deaths(self: session.Session, progress: Progress) -> bool:
            frames = progress.frames_this_session()
            if len(KillingSupervisor.deaths) == len(names) and not frames_at_last_death:
                frames_at_last_death.append(frames)
            has_gone_on = frames_at_last_death and frames > frames_at_last_death[0] + FRAMES_AFTER_DEATHS
            return bool(has_gone_on) and is_done(self, progress)

        monkeypatch.setattr(session.Session, "_is_done", is_done_after_deaths)

    return choose


@pytest.mark.parametrize(
    "flags",
    [FEED_FORWARD, (*FEED_FORWARD, "--inference=policy_workers", "--worker_num_splits=2")],
    ids=["local inference", "policy workers"],
)
def test_killed_rollout_workers_are_replaced(tmp_path: Path, kill, flags: tuple[str, ...]):
    victims = ("rollout_worker_1", "rollout_worker_0", "rollout_worker_1")
    kill(*victims)
    assert train(tmp_path, "gym_CartPole-v1", *flags, TARGET) is ExitStatus.SUCCESS
    assert [death.name for death in KillingSupervisor.deaths] == list(victims)
    assert "rollout_worker_0 died (rollout_worker_0 was killed by SIGKILL" in log_text(tmp_path)
    assert latest(tmp_path).env_steps > 3000


@pytest.mark.parametrize("splits", [pytest.param(1, marks=pytest.mark.long), 2])
def test_a_killed_policy_worker_is_replaced_and_nobody_waits_for_the_dead(tmp_path: Path, kill, splits: int):
    kill("policy_worker_0_0", "policy_worker_0_0")
    flags = ("--inference=policy_workers", f"--worker_num_splits={splits}")
    assert train(tmp_path, "double_memory", *flags, TARGET) is ExitStatus.SUCCESS
    assert [death.name for death in KillingSupervisor.deaths] == ["policy_worker_0_0"] * 2
    assert latest(tmp_path).env_steps > 3000


def test_in_sync_mode_a_killed_rollout_worker_does_not_stop_the_learner(tmp_path: Path, kill):
    kill("rollout_worker_0")
    flags = (*FEED_FORWARD, "--async_rl=False", "--num_workers=2")
    assert train(tmp_path, "gym_CartPole-v1", *flags, TARGET) is ExitStatus.SUCCESS
    assert latest(tmp_path).env_steps > 3000


@pytest.mark.parametrize(
    "mode", ["--async_rl=True", pytest.param("--async_rl=False", marks=pytest.mark.long)]
)
def test_a_killed_learner_is_replaced_and_goes_on_from_its_last_checkpoint(tmp_path: Path, kill, mode: str):
    kill("learner_0")
    assert train(tmp_path, "gym_CartPole-v1", *FEED_FORWARD, mode, TARGET) is ExitStatus.SUCCESS
    assert "learner_0 died (learner_0 was killed by SIGKILL" in log_text(tmp_path)
    assert latest(tmp_path).env_steps > 3000


def test_more_deaths_than_allowed_end_the_session_with_what_was_learned(tmp_path: Path, kill):
    kill("rollout_worker_0")
    flags = (*FEED_FORWARD, "--max_worker_restarts=0", "--train_for_env_steps=10000000")
    assert train(tmp_path, "gym_CartPole-v1", *flags) is ExitStatus.FAILURE
    text = log_text(tmp_path)
    assert "rollout_worker_0 failed: rollout_worker_0 was killed by SIGKILL" in text
    assert "--max_worker_restarts=0" in text
    assert latest(tmp_path).path.exists()
    assert not (tmp_path / "experiment" / "done").exists()


def test_an_environment_that_crashes_again_and_again_ends_the_session_with_its_traceback(tmp_path: Path):
    flags = (*FEED_FORWARD, "--max_worker_restarts=1", "--train_for_env_steps=10000000")
    assert train(tmp_path, "double_crash", *flags) is ExitStatus.FAILURE
    text = log_text(tmp_path)
    assert "this environment crashes at step 5" in text
    assert "doubles.py" in text


def test_a_session_leaves_no_descriptor_behind_in_its_process(tmp_path: Path):
    counts = []
    for number in range(2):
        flags = (*FEED_FORWARD, "--train_for_env_steps=300")
        train(tmp_path, "gym_CartPole-v1", *flags, experiment=f"experiment_{number}")
        close_logging()
        counts.append(len(os.listdir("/proc/self/fd")))
    assert counts[0] == counts[1]

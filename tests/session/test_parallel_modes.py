"""Every way of spreading a session over processes trains, ends, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sample_factory.algorithms.appo import session
from sample_factory.algorithms.appo.engine import ParallelEngine
from sample_factory.algorithms.appo.exits import ExitStatus
from tests.session.running import FEED_FORWARD, child_pids, latest, metric, same_weights, train, weights

pytestmark = pytest.mark.processes

POLICY_WORKERS = ("--inference=policy_workers",)
TARGET = "--train_for_env_steps=2000"

MODES: dict[str, tuple[str, tuple[str, ...]]] = {
    "inference in rollout workers": ("gym_CartPole-v1", FEED_FORWARD),
    "inference in policy workers": ("gym_CartPole-v1", (*FEED_FORWARD, *POLICY_WORKERS)),
    "two policy workers, one split": (
        "gym_CartPole-v1",
        (*POLICY_WORKERS, "--policy_workers_per_policy=2", "--worker_num_splits=1"),
    ),
    "GRU, two splits, two policies": (
        "double_memory",
        (*POLICY_WORKERS, "--worker_num_splits=2", "--num_policies=2"),
    ),
    "two policies in rollout workers": ("gym_CartPole-v1", (*FEED_FORWARD, "--num_policies=2")),
    "two agents, two policies": ("double_two_agents", (*FEED_FORWARD, "--num_policies=2")),
    "two agents, policy workers": ("double_two_agents", (*FEED_FORWARD, *POLICY_WORKERS)),
    "one big batch, no backlog": (
        "gym_CartPole-v1",
        (*FEED_FORWARD, "--batch_size=512", "--num_minibatches_to_accumulate=0"),
    ),
}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = child_pids()  # other tests' services may live as long as the whole test run
    yield
    assert not child_pids() - before


SHOWN = ("inference in policy workers", "GRU, two splits, two policies", "two agents, two policies")


@pytest.mark.parametrize(
    "mode", [mode if mode in SHOWN else pytest.param(mode, marks=pytest.mark.long) for mode in MODES]
)
def test_training_reaches_its_target(tmp_path: Path, mode: str):
    env, flags = MODES[mode]
    assert train(tmp_path, env, *flags, TARGET, "--seed=1") is ExitStatus.SUCCESS
    for policy_id in range(2 if "--num_policies=2" in flags else 1):
        found = latest(tmp_path, policy_id=policy_id)
        assert found.env_steps > 2000
        assert found.policy_version > 0
        assert all(bool(tensor.isfinite().all()) for tensor in found.state["model"].values())
    if "--num_policies=2" in flags:
        assert not same_weights(weights(tmp_path, policy_id=0), weights(tmp_path, policy_id=1))


class WatchedEngine(ParallelEngine):
    """Notes the policy lag whenever the session looks at its components."""

    lags: list[np.ndarray]

    def poll(self, timeout: float) -> Iterator[Any]:
        yield from super().poll(min(timeout, 0.002))
        self.lags.append(self._site.board().lag.copy())


@pytest.mark.parametrize(
    "placement", ["rollout_workers", pytest.param("policy_workers", marks=pytest.mark.long)]
)
def test_in_sync_mode_the_policy_lag_is_always_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, placement: str
):
    WatchedEngine.lags = []
    monkeypatch.setattr(session, "ParallelEngine", WatchedEngine)
    flags = (*FEED_FORWARD, f"--inference={placement}", "--async_rl=False", "--ppo_epochs=3")
    assert train(tmp_path, "gym_CartPole-v1", *flags, TARGET) is ExitStatus.SUCCESS
    lags = np.array(WatchedEngine.lags)
    seen = lags[lags >= 0]
    assert len(seen) > 10
    assert set(seen) == {0.0}
    assert set(metric(tmp_path, "train/version_diff_max")) == {0.0}

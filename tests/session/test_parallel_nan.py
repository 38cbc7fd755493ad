"""An environment whose rewards stop being numbers cannot ruin what has been learned before."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from sample_factory.algorithms.appo.exits import ExitStatus
from sample_factory.algorithms.appo.learner import NonFiniteTrainingError
from sample_factory.envs.registry import register_env
from tests.doubles import CountingEnv, Step
from tests.session.running import FEED_FORWARD, latest, log_text, train

pytestmark = pytest.mark.processes


class PoisonEnv(CountingEnv):
    """Pays NaN from its `poisoned_from`-th step on."""

    def __init__(self, poisoned_from: int = 100):
        super().__init__()
        self.poisoned_from = poisoned_from
        self.life = 0

    def step(self, action: Any) -> Step:
        self.life += 1
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward if self.life < self.poisoned_from else math.nan, terminated, truncated, info


def make_poison(full_env_name: str, cfg: Any = None, env_config: Any = None) -> PoisonEnv:
    return PoisonEnv()


FLAGS = (
    *FEED_FORWARD,
    "--normalize_returns=True",
    "--nan_guard_max_skips=3",
    "--train_for_env_steps=1000000",
)


def _assert_good_weights(tmp_path: Path) -> None:
    found = latest(tmp_path)
    assert found.policy_version > 1
    assert all(bool(tensor.isfinite().all()) for tensor in found.state["model"].values())


def test_a_parallel_session_ends_with_an_explanation_and_keeps_the_last_good_weights(tmp_path: Path):
    register_env("poison", make_poison)
    assert train(tmp_path, "poison", *FLAGS) is ExitStatus.FAILURE
    text = log_text(tmp_path)
    assert "policy_loss is not finite; the SGD step is skipped" in text
    assert "3 SGD steps in a row were not finite" in text
    assert "--learning_rate" in text
    _assert_good_weights(tmp_path)


def test_a_serial_session_raises_where_it_happened_and_keeps_the_last_good_weights(tmp_path: Path):
    register_env("poison", make_poison)
    with pytest.raises(NonFiniteTrainingError):
        train(tmp_path, "poison", "--serial_mode=True", *FLAGS)
    _assert_good_weights(tmp_path)

"""Population-based training against the same population without it, on a task one of four can learn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sample_factory.algorithms.appo import rollout_worker
from sample_factory.algorithms.appo.population import hyper_parameters_path
from sample_factory.config.experiment_files import write_json
from sample_factory.envs.registry import register_env, temporary_registrations
from sample_factory.monitoring.log import close_logging
from tests.doubles import Step
from tests.training.learning import DOUBLE, mean_reward

pytestmark = [pytest.mark.learning, pytest.mark.slow]

# Guessing gets 4 of 8. Two rates are too small to learn anything, one is so large that nothing stays.
LEARNING_RATES = (1e-7, 3e-2, 1e-6, 3.0)
GOOD = 7.0
POPULATION = (
    *DOUBLE,
    "--env=pick_the_bit",
    "--lr_schedule=constant",
    "--num_policies=4",
    "--with_pbt=True",
    "--pbt_replace_fraction=0.5",
    "--pbt_period_env_steps=1000",
    "--stats_avg=20",
    "--rollout=8",
    "--recurrence=8",
    "--batch_size=256",
    "--ppo_epochs=2",
    "--num_workers=1",
    "--num_envs_per_worker=32",
    "--serial_mode=True",
    "--train_for_env_steps=5000",
)
NEVER = "--pbt_start_mutation=1000000000"
EARLY = "--pbt_start_mutation=2500"


class PickTheBitEnv(gymnasium.Env):
    """Pays 1 for the action that names the bit it shows, eight times in an episode."""

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.count = 0
        return self._draw(), {}

    def step(self, action: Any) -> Step:
        reward = float(int(action) == self.bit)
        self.count += 1
        return self._draw(), reward, self.count >= 8, False, {}

    def _draw(self) -> np.ndarray:
        self.bit = int(self.np_random.integers(2))
        return np.eye(2, dtype=np.float32)[self.bit]


def make_pick_the_bit(full_env_name: str, cfg: object = None, env_config: object = None) -> gymnasium.Env:
    return PickTheBitEnv()


@pytest.fixture(autouse=True)
def environments(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Episodes are reported at once, so what the population knows does not depend on the machine's speed.
    monkeypatch.setattr(rollout_worker, "REPORT_INTERVAL_SEC", 0.0)
    with temporary_registrations():
        register_env("pick_the_bit", make_pick_the_bit)
        yield
    close_logging()


def rewards_of_population(directory: Path, *flags: str) -> list[float]:
    for policy_id, rate in enumerate(LEARNING_RATES):
        write_json(hyper_parameters_path(directory / "learning", policy_id), {"learning_rate": rate})
    return mean_reward(directory, *POPULATION, *flags, num_policies=4)


def test_without_evolution_only_the_policy_with_the_right_learning_rate_learns(tmp_path: Path):
    rewards = rewards_of_population(tmp_path, NEVER)
    assert [reward > GOOD for reward in rewards] == [False, True, False, False]


@pytest.mark.parametrize("taking_turns", [False, True])
def test_with_evolution_all_policies_end_up_good(tmp_path: Path, taking_turns: bool):
    rewards = rewards_of_population(tmp_path, EARLY, f"--async_rl={not taking_turns}")
    assert min(rewards) > GOOD
    lines = (tmp_path / "learning" / "pbt_events.jsonl").read_text().splitlines()
    assert {event["donor"] for event in map(json.loads, lines)} >= {1}

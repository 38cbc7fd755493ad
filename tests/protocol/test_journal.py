"""A vector that was saved goes on, in another process, exactly as the first one would have."""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import numpy as np
import pytest

from sample_factory.envs.journal import JournaledVector
from tests.protocol.test_vectors import Tape

NUM_ENVS = 3


def make_vector(name: str, limit: int, seeds: list[int]) -> JournaledVector:
    envs = [gymnasium.make(name, max_episode_steps=limit) for _ in range(NUM_ENVS)]
    return JournaledVector(envs, seeds)


def random_actions(name: str, rng: np.random.Generator) -> Any:
    if name == "CartPole-v1":
        return rng.integers(2, size=NUM_ENVS)
    return rng.uniform(-2, 2, size=(NUM_ENVS, 1)).astype(np.float32)


@pytest.mark.parametrize(("name", "obs_size"), [("CartPole-v1", 4), ("Pendulum-v1", 3)])
@pytest.mark.parametrize("steps_before", [0, 4, 7, 8, 23])
def test_a_replayed_vector_goes_on_exactly_where_the_saved_one_stood(
    name: str, obs_size: int, steps_before: int
) -> None:
    rng = np.random.default_rng(steps_before)
    original = Tape(make_vector(name, 7, [1, 2, 3]), obs_size)
    original.vector.warm_up([0, 3, 11], original.rows, lambda: None)
    for _ in range(steps_before):
        original.step(random_actions(name, rng))
    assert isinstance(original.vector, JournaledVector)
    saved = json.loads(json.dumps(original.vector.state_dict()))

    resumed = Tape(make_vector(name, 7, [8, 8, 8]), obs_size)
    assert isinstance(resumed.vector, JournaledVector)
    assert resumed.vector.replay(saved)
    del original.steps[:], original.episodes[:]
    for _ in range(30):
        actions = random_actions(name, rng)
        original.step(actions)
        resumed.step(actions)
    assert resumed.steps == original.steps
    assert np.array_equal(resumed.obs[:, 1:31], original.obs[:, 1:31])
    assert [vars(e) for e in resumed.episodes] == [vars(e) for e in original.episodes]
    assert len(original.episodes) >= 9


def test_every_episode_has_a_seed_of_its_own() -> None:
    tape = Tape(make_vector("CartPole-v1", 3, [1, 1, 2]), 4)
    first = tape.obs[:, 0].copy()
    assert np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], first[2])
    for _ in range(4):
        tape.step(np.zeros(3, np.int64))
    assert not np.array_equal(tape.obs[0, 4], first[0])


class DiceEnv(gymnasium.Env):
    """Not deterministic: ignores its seed."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)
    dice = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        return self.dice.random(1), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        return self.dice.random(1), 0.0, False, False, {}


def test_an_environment_that_goes_elsewhere_is_noticed() -> None:
    saved = JournaledVector([DiceEnv()], [1])
    tape = Tape(saved)
    for _ in range(3):
        tape.step([0])
    other = JournaledVector([DiceEnv()], [1])
    assert not other.replay(saved.state_dict())

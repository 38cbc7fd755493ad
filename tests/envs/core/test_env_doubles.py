"""The doubles do what tests rely on."""

import pickle

import numpy as np
import pytest

from sample_factory.envs.registry import temporary_registrations
from tests.doubles import (
    DOUBLES,
    ContinuousTargetEnv,
    CountingEnv,
    CrashEnv,
    EchoEnv,
    MaskedEnv,
    MemoryEnv,
    MultiDiscreteEnv,
    TruncatingEnv,
    TwoAgentEnv,
    register_doubles,
)
from tests.envs.contract_check import check_env


@pytest.fixture
def registered():
    with temporary_registrations():
        register_doubles()
        yield


@pytest.mark.parametrize("name", [name for name in DOUBLES if name not in ("double_echo", "double_crash")])
def test_every_double_keeps_the_contract_and_repeats_with_its_seed(registered, name):
    assert check_env(name, steps=50, reproducible=True).episodes >= 3


@pytest.mark.parametrize("env_class", DOUBLES.values())
def test_every_double_can_be_pickled(env_class):
    assert isinstance(pickle.loads(pickle.dumps(env_class())), env_class)


def test_counting_env_counts_and_ends():
    env = CountingEnv(length=2)
    assert env.reset()[0].tolist() == [0]
    assert env.step(0)[1:3] == (1.0, False)
    obs, _, terminated, _, _ = env.step(0)
    assert (obs.tolist(), terminated) == ([2], True)


def test_echo_env_accepts_its_observation_and_nothing_else():
    env = EchoEnv(env_id=3)
    obs, _ = env.reset()
    obs, *_ = env.step(obs)
    assert obs.tolist() == [3, 1]
    with pytest.raises(AssertionError, match="env 3"):
        env.step(np.array([2, 1], dtype=np.float32))


def memory_score(answer):
    env = MemoryEnv()
    total = 0.0
    for seed in range(200):
        first, _ = env.reset(seed=seed)
        obs, terminated = first, False
        while not terminated:
            obs, reward, terminated, _, _ = env.step(answer(first, obs))
        total += reward
    return total / 200


def test_memory_env_is_solved_by_remembering_the_cue():
    assert memory_score(lambda first, now: int(first[1])) == 1.0


def test_memory_env_gives_half_to_whoever_sees_only_the_present():
    assert 0.4 < memory_score(lambda first, now: int(now[1])) < 0.6


def test_continuous_target_env_pays_most_for_the_mean_of_the_observation():
    env = ContinuousTargetEnv()
    obs, _ = env.reset(seed=0)
    assert env.step(np.array([obs.mean()]))[1] == pytest.approx(0.0, abs=1e-9)
    obs, _ = env.reset(seed=0)
    assert env.step(np.array([obs.mean() + 0.5]))[1] == pytest.approx(-0.25, abs=1e-6)


def test_multi_discrete_env_pays_half_for_each_right_choice():
    env = MultiDiscreteEnv()
    obs, _ = env.reset(seed=0)
    right = np.array([obs[:3].argmax(), obs[3:].argmax()])
    assert env.step(right)[1] == 1.0
    obs, _ = env.reset(seed=0)
    assert env.step(np.array([right[0], (right[1] + 1) % 4]))[1] == 0.5


def test_masked_env_punishes_forbidden_actions_and_always_allows_one():
    env = MaskedEnv()
    for seed in range(50):
        obs, _ = env.reset(seed=seed)
        mask = obs["action_mask"]
        assert mask.any()
        action = int(env.np_random.integers(4))
        assert env.step(action)[1] == (1.0 if mask[action] else -10.0)


def test_two_agents_are_paid_for_acting_alike_and_start_anew_by_themselves():
    env = TwoAgentEnv(length=2)
    env.reset()
    assert env.step([0, 1])[1] == [0.0, 0.0]
    obs, rewards, terminated, _, _ = env.step([1, 1])
    assert (rewards, terminated) == ([1.0, 1.0], [True, True])
    assert [entry.tolist() for entry in obs] == [[0, 0], [1, 0]]


def test_truncating_env_ends_only_by_time_out():
    env = TruncatingEnv(limit=2)
    env.reset()
    assert [env.step(0)[2:4] for _ in range(2)] == [(False, False), (False, True)]


def test_crash_env_crashes_at_its_step():
    env = CrashEnv(crash_step=2)
    env.reset()
    env.step(0)
    with pytest.raises(RuntimeError, match="crashes at step 2"):
        env.step(0)

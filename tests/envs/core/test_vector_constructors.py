"""Constructors that users register for environments that step as one."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from sample_factory.config.parsing import parse_args
from sample_factory.envs.batched import FirstOfBatch, as_batched
from sample_factory.envs.make import make_env, make_vector_env
from sample_factory.envs.registry import register_env, register_env_deferred, temporary_registrations
from sample_factory.envs.spaces import UnsupportedSpaceError
from tests.doubles import CountingEnv


def make_many(name, cfg=None, env_config=None, num_envs=1):
    return SyncVectorEnv([CountingEnv] * num_envs)


def make_cartpoles(name, num_envs):
    return gymnasium.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode="vector_entry_point")


def make_fixed(name, cfg=None, env_config=None):
    return SyncVectorEnv([CountingEnv] * 4)


@pytest.fixture(autouse=True)
def registrations():
    with temporary_registrations():
        register_env("many_", make_many)
        register_env("cartpoles_", make_cartpoles)
        register_env("fixed_", make_fixed)
        register_env_deferred("later_", lambda: (make_many, None, None))
        yield


def cfg_for(env):
    return parse_args(["--algo=APPO", f"--env={env}"])


@pytest.mark.parametrize("env", ["many_1", "later_1"])
def test_a_constructor_that_takes_num_envs_makes_as_many_copies_as_a_split_has(env):
    batch = as_batched(make_vector_env(env, cfg_for(env), 3))
    batch.reset(0)
    assert batch.num_envs == 3
    assert batch.step(np.zeros(3)).obs["obs"].tolist() == [[1.0], [1.0], [1.0]]


def test_environments_of_make_vec_are_taken():
    batch = as_batched(make_vector_env("cartpoles_1", cfg_for("cartpoles_1"), 5))
    assert batch.reset(0)["obs"].shape == (5, 4)


def test_one_copy_shows_the_spaces_of_one_environment():
    env = make_env("many_1", cfg_for("many_1"), None)
    assert isinstance(env.unwrapped, FirstOfBatch)
    assert env.observation_space["obs"].shape == (1,)
    assert env.action_space == gymnasium.spaces.Discrete(2)
    assert env.reset(seed=1)[0]["obs"].tolist() == [0.0]


def test_ordinary_constructors_make_no_vectors():
    register_env("one_", lambda name, cfg=None, env_config=None: CountingEnv())
    assert make_vector_env("one_1", cfg_for("one_1"), 2) is None


def test_a_vector_from_a_constructor_that_is_not_told_how_many_is_refused_in_one_sentence():
    with pytest.raises(UnsupportedSpaceError, match="num_envs"):
        make_env("fixed_1", cfg_for("fixed_1"), None)

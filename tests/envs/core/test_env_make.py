"""From a name to an environment that is ready to use."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sample_factory.config.config import Config
from sample_factory.envs.make import make_env, make_vector_env
from sample_factory.envs.observations import dict_obs, obs_keys, observation_dict_space
from sample_factory.envs.registry import (
    EnvFamily,
    MissingPackageError,
    register_env,
    register_family,
    temporary_registrations,
)
from sample_factory.envs.spaces import UnsupportedSpaceError
from tests.doubles import CountingEnv, TwoAgentEnv


@pytest.fixture(autouse=True)
def forget_registrations():
    with temporary_registrations():
        yield


class FixedEnv(gymnasium.Env):
    """Observes what it is told to and reports the actions it gets."""

    def __init__(self, observation_space, obs=None, action_space=None):
        self.observation_space = observation_space
        self.action_space = action_space if action_space is not None else spaces.Discrete(2)
        self.obs = obs

    def reset(self, *, seed=None, options=None):
        return self.obs, {}

    def step(self, action):
        return self.obs, 0.0, False, False, {"action": action}


def made(env):
    register_env("fixed_", lambda name: env)
    return make_env("fixed_env", Config(), None)


def unit_box(*shape, dtype=np.float32):
    return spaces.Box(0, 1, shape, dtype)


def test_a_bare_array_stays_unwrapped_and_is_stored_under_obs():
    env = CountingEnv()
    assert made(env) is env
    assert obs_keys(env) is None
    assert observation_dict_space(env) == spaces.Dict({"obs": CountingEnv.observation_space})
    assert list(dict_obs(env, np.zeros(1))) == ["obs"]


def test_text_is_dropped_from_a_dict_observation():
    space = spaces.Dict({"obs": unit_box(2), "mission": spaces.Text(10), "extra": unit_box(3)})
    env = made(FixedEnv(space))
    assert set(obs_keys(env)) == {"obs", "extra"}
    assert tuple(observation_dict_space(env).spaces) == obs_keys(env)
    kept = dict_obs(env, {"obs": np.ones(2), "mission": "go", "extra": np.ones(3)})
    assert tuple(kept) == obs_keys(env)


def test_double_precision_observations_are_stored_as_float32():
    env = made(FixedEnv(spaces.Box(-np.inf, np.finfo(np.float64).max, (2,), np.float64)))
    stored = observation_dict_space(env)["obs"]
    assert stored.dtype == np.float32
    np.testing.assert_array_equal(stored.high, [np.inf, np.inf])


def test_bytes_stay_bytes():
    env = made(FixedEnv(spaces.Box(0, 255, (3, 8, 8), np.uint8)))
    assert observation_dict_space(env)["obs"].dtype == np.uint8


@pytest.mark.parametrize(
    ("space", "obs", "expected"),
    [
        (spaces.Discrete(4), 2, [0, 0, 1, 0]),
        (spaces.Discrete(3, start=5), 5, [1, 0, 0]),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 2]), [0, 1, 0, 0, 1]),
        (spaces.MultiBinary(3), np.array([1, 0, 1], dtype=np.int8), [1, 0, 1]),
        (spaces.Tuple((spaces.Discrete(2), unit_box(2))), (1, np.array([0.25, 0.5])), [0, 1, 0.25, 0.5]),
        (spaces.Box(0.0, 9.0, (), np.float32), np.float32(7.0), [7.0]),
    ],
)
def test_observations_that_are_no_arrays_become_one_vector(space, obs, expected):
    env = made(FixedEnv(space, obs))
    encoded, _ = env.reset()
    np.testing.assert_array_equal(encoded, np.array(expected, dtype=np.float32))
    assert env.observation_space.contains(encoded)
    np.testing.assert_array_equal(env.step(0)[0], encoded)


def test_nested_dicts_become_flat_with_joined_keys():
    space = spaces.Dict(
        {"me": spaces.Dict({"arm": unit_box(2), "mode": spaces.Discrete(2)}), "obs": unit_box(3)}
    )
    obs = {"me": {"arm": np.array([0.5, 1.0], dtype=np.float32), "mode": 0}, "obs": np.zeros(3, np.float32)}
    env = made(FixedEnv(space, obs))
    encoded, _ = env.reset()
    assert {key: value.tolist() for key, value in encoded.items()} == {
        "me/arm": [0.5, 1.0],
        "me/mode": [1.0, 0.0],
        "obs": [0.0, 0.0, 0.0],
    }


def test_a_tuple_with_a_picture_keeps_its_elements_apart():
    picture, vector = np.zeros((3, 8, 8), np.float32), np.ones(2, np.float32)
    env = made(FixedEnv(spaces.Tuple((unit_box(3, 8, 8), unit_box(2))), (picture, vector)))
    encoded, _ = env.reset()
    assert {key: value.shape for key, value in encoded.items()} == {"obs": (3, 8, 8), "obs_1": (2,)}


def test_every_agent_of_a_multi_agent_environment_is_encoded():
    env = TwoAgentEnv()
    env.observation_space = spaces.Discrete(2)
    env._obs = lambda: [0, 1]
    first, second = made(env).reset()[0]
    assert (first.tolist(), second.tolist()) == ([1, 0], [0, 1])


def test_an_observation_that_cannot_be_encoded_is_named():
    space = spaces.Dict({"obs": unit_box(1), "words": spaces.Sequence(unit_box(1))})
    with pytest.raises(UnsupportedSpaceError, match=r"fixed_env observes Sequence.* at 'words'"):
        made(FixedEnv(space))


@pytest.mark.parametrize("space", [spaces.Text(5), spaces.Dict({"mission": spaces.Text(5)})])
def test_an_environment_that_observes_only_text_is_refused(space):
    with pytest.raises(UnsupportedSpaceError, match="only text"):
        made(FixedEnv(space))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (2, 2), np.float32),
        spaces.Box(0, 5, (2,), np.int64),
        spaces.Dict({"a": spaces.Discrete(2)}),
        spaces.Tuple((spaces.Discrete(2), spaces.Text(3))),
        spaces.Tuple((spaces.Discrete(2, start=1), spaces.Discrete(2))),
    ],
)
def test_an_action_space_without_a_distribution_is_refused_by_name(space):
    with pytest.raises(UnsupportedSpaceError, match="fixed_env has the action space"):
        made(FixedEnv(unit_box(1), action_space=space))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(4),
        spaces.Box(-1, 1, (2,), np.float32),
        spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (2,), np.float32))),
    ],
)
def test_supported_action_spaces_pass_unchanged(space):
    assert made(FixedEnv(unit_box(1), action_space=space)).action_space == space


def test_actions_that_count_from_a_start_are_shifted():
    env = made(FixedEnv(unit_box(1), action_space=spaces.Discrete(3, start=-1)))
    assert env.action_space == spaces.Discrete(3)
    assert env.step(np.int64(0))[4]["action"] == -1


def test_multi_discrete_actions_that_count_from_a_start_are_shifted():
    env = made(FixedEnv(unit_box(1), action_space=spaces.MultiDiscrete([2, 2], start=[10, 20])))
    assert env.step(np.array([1, 0]))[4]["action"].tolist() == [11, 20]


def test_a_single_agent_environment_says_so():
    env = made(CountingEnv())
    assert (env.num_agents, env.is_multiagent) == (1, False)


def test_the_number_of_agents_shows_through_wrappers_of_gymnasium():
    env = made(gymnasium.Wrapper(TwoAgentEnv()))
    assert (env.num_agents, env.is_multiagent) == (2, True)


def test_an_explicit_is_multiagent_wins_over_the_number_of_agents():
    env = CountingEnv()
    env.is_multiagent = True
    assert made(env).is_multiagent is True


def never(name, cfg, env_config, render_mode):
    raise AssertionError("must not be called")


def test_a_missing_package_is_one_sentence_with_the_command_that_installs_it():
    register_family(EnvFamily("ghost_", never, extra="doom", package="no_such_simulator"))
    with pytest.raises(MissingPackageError) as caught:
        make_env("ghost_1", Config(), None)
    assert str(caught.value) == (
        "--env=ghost_1 needs the package no_such_simulator, which is not installed: "
        "pip install 'sample-factory-rebuilt[doom]'"
    )


def test_a_package_missed_while_making_is_named_too():
    def make(name, cfg, env_config, render_mode):
        import no_such_codec  # noqa: F401

    register_family(EnvFamily("ghost_", make, extra="doom"))
    with pytest.raises(MissingPackageError, match=r"needs the package no_such_codec.*\[doom\]"):
        make_env("ghost_1", Config(), None)


def test_an_import_error_of_a_users_own_function_is_left_as_it_is():
    def make(name):
        import no_such_codec  # noqa: F401

    register_env("ghost_", make)
    with pytest.raises(ModuleNotFoundError, match="no_such_codec"):
        make_env("ghost_1", Config(), None)


def test_what_gymnasium_says_about_a_missing_dependency_reaches_the_user():
    def make(name):
        raise gymnasium.error.DependencyNotInstalled("pip install physics")

    register_env("ghost_", make)
    with pytest.raises(MissingPackageError, match="--env=ghost_1 cannot be made: pip install physics"):
        make_env("ghost_1", Config(), None)


def test_a_family_without_a_vector_constructor_gives_none():
    register_env("plain_", lambda name: CountingEnv())
    assert make_vector_env("plain_1", Config(), 4) is None

"""gymnasium environments under the prefix `gym_`."""

import logging

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sample_factory.config.config import Config
from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.gym_family import find_spec
from sample_factory.envs.make import make_env, make_vector_env
from sample_factory.envs.registry import MissingPackageError, UnknownEnvError
from tests.doubles import CountingEnv
from tests.envs.contract_check import check_env, family_cfg

CARTPOLE = "gym_CartPole-v1"


def made(name, **overrides):
    return make_env(name, family_cfg(name, overrides), None)


@pytest.fixture
def pictures():
    """A registered environment that observes HWC pictures."""

    class Pictures(CountingEnv):
        observation_space = spaces.Box(0, 255, (8, 9, 3), np.uint8)

        def _obs(self):
            return np.full((8, 9, 3), self.count, dtype=np.uint8)

    gymnasium.register("SfTestPictures-v0", entry_point=Pictures)
    yield "gym_SfTestPictures-v0"
    del gymnasium.registry["SfTestPictures-v0"]


PARTS = ("classic_control", "toy_text", "box2d")


def own_environments():
    """What gymnasium itself brings, given the extra `gym`; MuJoCo has a family of its own."""
    sources = tuple(f"gymnasium.envs.{part}." for part in PARTS)
    registered = gymnasium.registry.values()
    return [f"gym_{spec.id}" for spec in registered if str(spec.entry_point).startswith(sources)]


@pytest.mark.parametrize("name", own_environments())
def test_every_environment_of_gymnasium_keeps_the_contract_for_200_steps(name):
    assert check_env(name, steps=200).frames == 200


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("gym_CartPole-v1", (4,)),
        ("gym_Blackjack-v1", (32 + 11 + 2,)),  # a Tuple of Discrete
        ("gym_FrozenLake-v1", (16,)),  # Discrete
        ("gym_Taxi-v4", (500,)),
        ("gym_LunarLander-v3", (8,)),
        ("gym_CarRacing-v3", (3, 96, 96)),  # a picture
    ],
)
def test_spaces_of_all_kinds_reach_policies_as_arrays_that_the_seed_decides(name, shape):
    report = check_env(name, steps=20, reproducible=True)
    assert {key: value.shape for key, value in report.observations[0].items()} == {"obs": shape}


@pytest.mark.parametrize("name", ["gym_HalfCheetah-v2", "gym_Pusher-v4"])
def test_a_version_that_gymnasium_only_lists_stands_for_the_newest(name, caplog):
    pytest.importorskip("mujoco")
    with caplog.at_level(logging.WARNING):
        check_env(name, steps=5)
    assert f"gymnasium has no {name.removeprefix('gym_')}; using its newest version" in caplog.text


def test_a_package_that_an_environment_lacks_is_named():
    with pytest.raises(MissingPackageError, match=r"cannot be made: .*pip install"):
        made("gym_GymV21Environment-v0")


def test_cartpole_is_wrapped_by_nothing_but_its_time_limit():
    env = made(CARTPOLE)
    assert isinstance(env, gymnasium.wrappers.TimeLimit)
    assert env.env is env.unwrapped


def test_the_time_limit_of_an_environment_stays():
    env = made("gym_Pendulum-v1")
    env.reset(seed=0)
    ends = [env.step(np.zeros(1, np.float32))[2:4] for _ in range(200)]
    assert ends[-2:] == [(False, False), (False, True)]


def test_box_actions_are_clipped_to_their_bounds():
    first, second = made("gym_MountainCarContinuous-v0"), made("gym_MountainCarContinuous-v0")
    first.reset(seed=0)
    second.reset(seed=0)
    beyond, at_bound = first.step(np.array([50.0], np.float32)), second.step(np.array([1.0], np.float32))
    np.testing.assert_array_equal(beyond[0], at_bound[0])
    assert beyond[1] == at_bound[1]


def test_the_family_plays_every_frame_by_default():
    assert family_cfg(CARTPOLE).env_frameskip == 1


def test_env_frameskip_repeats_actions():
    env = made(CARTPOLE, env_frameskip=3)
    env.reset(seed=0)
    _, reward, _, _, info = env.step(0)
    assert (reward, info["num_frames"]) == (3.0, 3)


def test_pictures_come_with_their_channels_first(pictures):
    assert made(pictures).observation_space.shape == (3, 8, 9)


def test_pixel_format_hwc_leaves_pictures_as_they_are(pictures):
    assert made(pictures, pixel_format="HWC").observation_space.shape == (8, 9, 3)


def test_render_mode_reaches_gymnasium():
    env = make_env(CARTPOLE, family_cfg(CARTPOLE), None, render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (400, 600, 3)


def test_an_unknown_id_gets_the_nearest_one():
    with pytest.raises(UnknownEnvError, match=r"did you mean --env=gym_CartPole-v\d\?"):
        made("gym_Cartpol-v1")


def test_a_version_that_does_not_exist_yet_is_unknown():
    with pytest.raises(UnknownEnvError, match="CartPole-v99"):
        made("gym_CartPole-v99")


def test_a_malformed_id_is_unknown():
    with pytest.raises(UnknownEnvError, match="try --env=gym_CartPole-v1"):
        made("gym_@@@")


def test_an_old_version_stands_for_the_newest_as_in_commands_of_v1():
    assert find_spec("gym_LunarLanderContinuous-v2").id == "LunarLanderContinuous-v3"


def test_an_id_without_a_version_stands_for_the_newest():
    assert find_spec("gym_CartPole").id == "CartPole-v1"


def test_the_change_of_version_is_reported_once_and_not_by_every_worker(caplog):
    cfg = family_cfg("gym_Taxi-v3")
    with caplog.at_level(logging.WARNING):
        make_env("gym_Taxi-v3", cfg, None)
        make_env("gym_Taxi-v3", cfg, EnvConfig(worker_index=1, vector_index=0, env_id=8))
    assert [record.getMessage() for record in caplog.records] == [
        "gymnasium has no Taxi-v3; using its newest version Taxi-v4."
    ]


def test_a_module_before_a_colon_registers_the_environment(tmp_path, monkeypatch):
    (tmp_path / "sf_test_plugin.py").write_text(
        "import gymnasium\nfrom tests.doubles import CountingEnv\n"
        "gymnasium.register('SfTestPlugged-v0', entry_point=CountingEnv)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert isinstance(made("gym_sf_test_plugin:SfTestPlugged-v0").unwrapped, CountingEnv)
    finally:
        gymnasium.registry.pop("SfTestPlugged-v0", None)


def test_a_module_that_cannot_be_imported_is_named():
    with pytest.raises(MissingPackageError, match="no_such_plugin"):
        made("gym_no_such_plugin:Thing-v0")


def test_vectorised_environments_are_off_by_default():
    assert make_vector_env(CARTPOLE, family_cfg(CARTPOLE), 4) is None


def test_vectorised_cartpole_steps_as_one_batch_and_resets_on_the_next_step():
    env = make_vector_env(CARTPOLE, family_cfg(CARTPOLE, {"vectorized_envs": True}), 4)
    assert env.num_envs == 4
    assert env.metadata["autoreset_mode"] == gymnasium.vector.AutoresetMode.NEXT_STEP
    obs, _ = env.reset(seed=0)
    assert obs.shape == (4, 4)
    env.close()


@pytest.mark.parametrize(
    ("name", "settings"),
    [("gym_Pendulum-v1", {}), (CARTPOLE, {"env_frameskip": 4})],
)
def test_an_environment_that_cannot_be_vectorised_says_so_and_runs_without(name, settings, caplog):
    cfg = Config(vectorized_envs=True, **settings)
    with caplog.at_level(logging.WARNING):
        assert make_vector_env(name, cfg, 4) is None
    assert "--vectorized_envs=True has no effect" in caplog.text

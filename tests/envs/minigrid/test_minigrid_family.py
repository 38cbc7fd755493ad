"""MiniGrid worlds: what the agent sees, names, defaults."""

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("minigrid")

import gymnasium
import minigrid

from sample_factory.envs.make import make_env
from sample_factory.envs.observations import observation_dict_space
from sample_factory.envs.registry import UnknownEnvError
from tests.envs.contract_check import check_env, family_cfg

WORLD = "MiniGrid-Empty-Random-6x6-v0"


def make(name=WORLD, **overrides):
    return make_env(name, family_cfg(name, overrides), None)


def all_worlds():
    """Every registered id; those with WFC in their names need files that the package leaves out."""
    gymnasium.register_envs(minigrid)
    return [name for name in gymnasium.registry if name.startswith("MiniGrid-")]


WORLDS = [name for name in all_worlds() if "-WFC-" not in name]


def test_there_are_as_many_worlds_as_the_guide_says():
    assert len(WORLDS) >= 76


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_keeps_the_contract_for_200_steps(name):
    report = check_env(name, steps=200)
    assert list(report.observations[0]) == ["obs"]
    assert report.frames == 200


@pytest.mark.parametrize(
    "name",
    ["MiniGrid-Empty-8x8-v0", "MiniGrid-DoorKey-6x6-v0", "MiniGrid-FourRooms-v0", "MiniGrid-MemoryS7-v0"],
)
def test_worlds_keep_their_seed(name):
    report = check_env(name, steps=100, reproducible=True)
    assert report.observations[0]["obs"].shape == (3, 7, 7)


def test_a_world_whose_files_the_package_lacks_is_refused_with_a_sentence():
    name = "MiniGrid-WFC-MazeSimple-v0"
    with pytest.raises(UnknownEnvError, match=r"SimpleMaze\.png"):
        make(name)


def test_reaching_the_goal_ends_the_episode_with_the_reward_of_the_time_it_took():
    env = make("MiniGrid-Empty-5x5-v0")
    env.reset(seed=0)
    right, forward = 1, 2
    steps = [env.step(action) for action in (forward, forward, right, forward, forward)]
    assert [step[2] for step in steps] == [False] * 4 + [True]
    assert steps[-1][1] == pytest.approx(1 - 0.9 * 5 / 100)


def test_one_hot_planes_say_the_same_as_the_three_numbers():
    name = "MiniGrid-MemoryS7-v0"
    numbers, planes = make(name), make(name, minigrid_one_hot=True)
    assert planes.observation_space["obs"].shape == (20, 7, 7)
    first, second = numbers.reset(seed=3)[0]["obs"], planes.reset(seed=3)[0]["obs"]
    for action in (0, 0, 2, 1, 2):
        assert set(np.unique(second)) == {0, 1}
        kinds = [second[:11].argmax(0), second[11:17].argmax(0), second[17:].argmax(0)]
        np.testing.assert_array_equal(np.stack(kinds), first)
        assert (second.sum(0) == 3).all()
        first, second = numbers.step(action)[0]["obs"], planes.step(action)[0]["obs"]


def test_one_hot_planes_keep_the_contract():
    check_env(WORLD, {"minigrid_one_hot": True}, steps=50)


def test_frameskip_repeats_actions_and_counts_frames():
    env = make(env_frameskip=3)
    env.reset(seed=0)
    assert env.step(0)[4]["num_frames"] == 3


def test_pictures_show_the_whole_grid():
    env = make_env(WORLD, family_cfg(WORLD), None, "rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (6 * 32, 6 * 32, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 2


def test_obs_is_the_view_of_the_agent_with_channels_first():
    gymnasium.register_envs(minigrid)
    plain = gymnasium.make(WORLD)
    raw, _ = plain.reset(seed=5)
    seen, _ = make().reset(seed=5)
    for x, y, channel in np.ndindex(7, 7, 3):
        assert seen["obs"][channel, x, y] == raw["image"][x, y, channel]


def test_direction_is_one_hot_when_asked_for():
    env = make(minigrid_direction=True)
    assert observation_dict_space(env)["direction"].shape == (4,)
    env.reset(seed=5)
    turn_right, seen = 1, []
    for _ in range(4):
        direction = env.step(turn_right)[0]["direction"]
        assert direction.sum() == 1.0
        seen.append(int(direction.argmax()))
    assert [(later - earlier) % 4 for earlier, later in pairwise(seen)] == [1, 1, 1]


def test_running_out_of_steps_is_a_truncation():
    env = make()
    env.reset(seed=0)
    turn_left = 0
    ends = [env.step(turn_left)[2:4] for _ in range(144)]  # four steps for each cell of the world
    assert ends[-1] == (False, True)
    assert not any(truncated for _, truncated in ends[:-1])


def test_an_unknown_world_is_refused():
    with pytest.raises(UnknownEnvError, match="MiniGrid-Empty-8x8-v0"):
        make_env("MiniGrid-Nowhere-v0", family_cfg(WORLD), None)


def test_the_family_sets_v1_defaults():
    cfg = family_cfg(WORLD)
    chosen = {
        "encoder_subtype": "minigrid_convnet_tiny",
        "hidden_size": 128,
        "obs_subtract_mean": 4.0,
        "obs_scale": 8.0,
        "exploration_loss_coeff": 0.005,
        "env_frameskip": 1,
    }
    assert {key: getattr(cfg, key) for key in chosen} == chosen

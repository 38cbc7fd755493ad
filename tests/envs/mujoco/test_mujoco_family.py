"""MuJoCo tasks: names, bounds, time limits, pictures."""

import gymnasium
import numpy as np
import pytest

pytest.importorskip("mujoco")

from sample_factory.envs.make import make_env
from sample_factory.envs.mujoco.family import TASKS, task_id
from sample_factory.envs.mujoco.locomotion import PLANAR_TASKS, PlanarLocomotion
from sample_factory.envs.mujoco_remarks import quiet_model_compiler
from sample_factory.envs.registry import UnknownEnvError
from tests.envs.contract_check import check_env, family_cfg


def make(name, render_mode=None, **overrides):
    return make_env(name, family_cfg(name, overrides), None, render_mode)


def test_the_names_of_both_versions_are_known():
    v1 = {"hopper", "halfcheetah", "humanoid"}
    v2 = {"ant", "standup", "doublependulum", "pendulum", "reacher", "walker", "pusher", "swimmer"}
    assert set(TASKS) == v1 | v2


@pytest.mark.parametrize("task", TASKS)
def test_every_task_keeps_the_contract_for_200_steps_and_its_seed(task):
    assert check_env(f"mujoco_{task}", steps=200, reproducible=True).frames == 200


def test_any_gymnasium_id_is_a_name():
    assert task_id("mujoco_Walker2d-v4") == "Walker2d-v4"


@pytest.mark.parametrize("name", ["mujoco_hoper", "mujoco_Hoper-v5", "mujoco_Hopper-v2"])
def test_a_misspelt_task_is_refused(name):
    with pytest.raises(UnknownEnvError, match="try --env=mujoco_"):
        make(name)


def test_actions_beyond_the_bounds_cost_no_more_than_those_at_the_bounds():
    rewards = []
    for size in (1.0, 5.0):
        env = make("mujoco_halfcheetah")
        env.reset(seed=0)
        rewards.append([env.step(np.full(6, size, np.float32))[1] for _ in range(5)])
    assert rewards[0] == rewards[1]


@pytest.mark.parametrize("env_id", PLANAR_TASKS)
@pytest.mark.parametrize("size", [0.1, 1.5])
def test_tasks_stepped_without_layers_are_gymnasiums_bit_for_bit(env_id, size):
    ours = make(f"mujoco_{env_id}")
    with quiet_model_compiler():  # which otherwise leaves a file
        theirs = gymnasium.make(env_id)
    assert isinstance(ours, PlanarLocomotion)
    rng = np.random.default_rng(0)
    seed, ends = 5, []
    for _ in range(2300):
        if seed is not None or ends[-1]:
            np.testing.assert_array_equal(ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
            seed = None
        action = rng.normal(scale=size, size=ours.action_space.shape).astype(np.float32)
        bounded = np.clip(action, ours.action_space.low, ours.action_space.high)
        obs, reward, *end, _ = ours.step(action)
        expected_obs, expected_reward, *expected_end, _ = theirs.step(bounded)
        np.testing.assert_array_equal(obs, expected_obs)
        assert obs.dtype == expected_obs.dtype
        assert reward == expected_reward
        assert end == expected_end
        ends.append(any(end))
    assert sum(ends) >= 2


def test_time_out_is_a_truncation_on_the_last_step():
    env = make("mujoco_reacher")
    env.reset(seed=0)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(50)]
    assert ends == [(False, False)] * 49 + [(False, True)]


def test_frameskip_repeats_actions_and_counts_frames():
    env = make("mujoco_halfcheetah", env_frameskip=3)
    env.reset(seed=0)
    assert env.step(np.zeros(6, np.float32))[4]["num_frames"] == 3


def test_making_a_task_prints_nothing_and_leaves_no_file(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    make("mujoco_halfcheetah").reset(seed=0)
    assert list(tmp_path.iterdir()) == []
    assert "WARNING" not in "".join(capfd.readouterr())


def test_pictures_need_no_display(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setenv("MUJOCO_GL", "")  # so that it is taken back after the test
    monkeypatch.delenv("MUJOCO_GL")
    env = make("mujoco_hopper", render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    env.close()
    assert picture.shape[2] == 3
    assert picture.std() > 0


def test_the_camera_follows_a_body_that_runs_away():
    env = make("mujoco_halfcheetah", render_mode="rgb_array")
    env.reset(seed=0)
    task = env.unwrapped
    position = task.data.qpos.copy()
    position[0] += 50.0
    task.set_state(position, task.data.qvel)
    picture = env.render().astype(int)
    env.close()
    skin = picture[:, :, 0] - picture[:, :, 2] > 40  # orange; the floor is green and black
    assert skin.sum() > 500


def test_the_family_sets_v1_defaults():
    cfg = family_cfg("mujoco_ant")
    chosen = {
        "encoder_type": "mlp",
        "encoder_subtype": "mlp_mujoco",
        "hidden_size": 64,
        "encoder_extra_fc_layers": 0,
        "env_frameskip": 1,
        "nonlinearity": "tanh",
    }
    assert {key: getattr(cfg, key) for key in chosen} == chosen

"""EnvPool: rows of resets, scores of games, names."""

import numpy as np
import pytest

pytest.importorskip("envpool")

from envpool.registration import registry

from sample_factory.envs.envpool.env import GameScores
from sample_factory.envs.make import make_env, make_vector_env
from sample_factory.envs.registry import UnknownEnvError, family_for
from tests.envs.contract_check import check_env, family_cfg


def batch(name, num_envs, **overrides):
    return make_vector_env(name, family_cfg(name, overrides), num_envs)


def random_steps(env, count, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        if hasattr(env.action_space, "n"):
            yield env.step(rng.integers(env.action_space.n, size=env.num_envs))
        else:
            yield env.step(rng.normal(size=(env.num_envs, *env.action_space.shape)).astype(np.float32))


def tasks_from(*sources):
    """Names of all tasks of some parts of EnvPool."""
    return [f"envpool_{task}" for task, (source, *_) in registry.specs.items() if source in sources]


VECTORS = tasks_from("envpool.classic_control", "envpool.toy_text", "envpool.mujoco.gym")
DOOM = ("D1Basic-v1", "D3Battle-v1", "HealthGathering-v1", "MyWayHome-v1")


@pytest.mark.parametrize("name", VECTORS)
def test_every_task_with_numbers_keeps_the_contract_for_200_steps(name):
    check_env(name, steps=200)


@pytest.mark.parametrize("task", DOOM)
def test_doom_tasks_keep_the_contract_and_write_nothing_into_the_working_directory(task):
    assert check_env(f"envpool_{task}", steps=200).frames == 800


def test_a_task_that_would_crash_the_process_is_refused():
    with pytest.raises(UnknownEnvError, match="--env=doom_dm"):
        make_env("envpool_Cig-v1", family_cfg("envpool_Cig-v1"), None)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("envpool_CartPole-v1", (4,)),
        ("envpool_Pong-v5", (4, 84, 84)),
        ("envpool_HalfCheetah-v5", (17,)),
        ("envpool_Taxi-v3", (500,)),
    ],
)
def test_one_copy_keeps_the_contract_and_its_seed(name, shape):
    report = check_env(name, steps=60, reproducible=True)
    assert report.observations[0]["obs"].shape == shape


def test_every_row_after_an_end_is_a_reset_and_no_other():
    env = batch("envpool_CartPole-v1", 5)
    env.reset(seed=1)
    ended, resets = np.zeros(5, bool), 0
    for step in random_steps(env, 120):
        np.testing.assert_array_equal(step.resets, ended)
        # CartPole starts within 0.05 of upright, which it never is again when it has fallen.
        assert np.all(np.abs(step.obs["obs"][step.resets]) <= 0.05)
        assert np.all(step.rewards[step.resets] == 0.0)
        np.testing.assert_array_equal(step.frames, np.where(step.resets, 0, 1))
        ended = step.terminated | step.truncated
        resets += int(step.resets.sum())
    assert resets > 10


def test_a_time_limit_truncates():
    env = batch("envpool_HalfCheetah-v5", 2, envpool_kwargs='{"max_episode_steps": 7}')
    env.reset(seed=1)
    steps = list(random_steps(env, 9))
    assert [step.truncated.all() for step in steps] == [False] * 6 + [True] + [False] * 2
    assert not any(step.terminated.any() for step in steps)
    assert [step.resets.all() for step in steps] == [False] * 7 + [True] + [False]


def test_the_seed_decides_and_copies_differ():
    env = batch("envpool_CartPole-v1", 3)
    first = env.reset(seed=1)["obs"].copy()
    again = env.reset(seed=1)["obs"].copy()
    other = env.reset(seed=100)["obs"]
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len(np.unique(first[:, 0])) == 3


def test_atari_frames_count_the_skip():
    env = batch("envpool_Pong-v5", 2, env_frameskip=3)
    env.reset(seed=1)
    assert next(random_steps(env, 1)).frames.tolist() == [3, 3]


def test_stacks_of_frames_shift():
    env = batch("envpool_Pong-v5", 2)
    before = env.reset(seed=1)["obs"].copy()
    for step in random_steps(env, 5):
        np.testing.assert_array_equal(step.obs["obs"][:, :-1], before[:, 1:])
        before = step.obs["obs"].copy()


def test_the_score_of_a_game_spans_its_lives():
    env = batch("envpool_Breakout-v5", 2)
    env.reset(seed=1)
    running, lives, scores = np.zeros(2), np.zeros(2, int), []
    for step in random_steps(env, 600):
        running += step.rewards
        for i, info in step.infos:
            lives[i] += 1
            if "episode_extra_stats" in info:
                assert lives[i] == 5
                assert info["true_reward"] == running[i]
                scores.append(running[i])
                running[i], lives[i] = 0.0, 0
    assert max(scores) > 0


def test_the_end_of_a_life_repeats_the_last_finished_game():
    scores = GameScores(1)
    yes, no = np.array([True]), np.array([False])

    def told(reward, ended, game_over):
        info = {"reward": np.array([reward]), "terminated": np.array([int(game_over)])}
        return scores.ended(np.array([ended]), no, info)

    assert told(3.0, ended=False, game_over=False) == []
    assert told(1.0, ended=True, game_over=False) == [(0, {"true_reward": 4.0})]
    assert told(2.0, ended=True, game_over=True) == [
        (0, {"true_reward": 6.0, "episode_extra_stats": {"game_score": 6.0}})
    ]
    assert told(1.0, ended=True, game_over=False) == [(0, {"true_reward": 6.0})]
    assert scores.ended(yes, yes, {"reward": np.array([1.0]), "terminated": np.array([0])}) == [
        (0, {"true_reward": 2.0, "episode_extra_stats": {"game_score": 2.0}})
    ]


def test_defaults_fit_what_is_observed():
    assert family_cfg("envpool_Pong-v5").encoder_type == "conv"
    assert family_cfg("envpool_CartPole-v1").encoder_type == "mlp"


def test_an_unknown_task_is_refused_with_the_nearest():
    with pytest.raises(UnknownEnvError, match="--env=envpool_CartPole-v1"):
        family_for("envpool_").defaults_for("envpool_CartPol-v1")


def test_one_copy_can_be_rendered():
    env = make_env("envpool_Pong-v5", family_cfg("envpool_Pong-v5"), None, "rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (210, 160, 3)

"""Wrappers for actions, rewards and time."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sample_factory.envs.wrappers import (
    ClipActions,
    ClipReward,
    RemainingTime,
    RewardScaling,
    SkipFrames,
    TimeLimit,
)
from tests.doubles import CountingEnv, TwoAgentEnv
from tests.envs.core.scripted import ScriptedEnv, counted_vectors


class ActionEnv(CountingEnv):
    """Reports the action it was given."""

    action_space = spaces.Box(np.float32([-1, 0]), np.float32([1, 2]))

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated, {**info, "action": action}


class RewardEnv(CountingEnv):
    """Rewards with the action."""

    def step(self, action):
        obs, _, terminated, truncated, info = super().step(action)
        return obs, action, terminated, truncated, info


def test_clip_actions_keeps_each_component_within_its_own_bounds():
    env = ClipActions(ActionEnv())
    info = env.step(np.array([-3.0, 3.0], dtype=np.float32))[4]
    assert info["action"].tolist() == [-1.0, 2.0]


def test_clip_actions_leaves_actions_inside_the_bounds_alone():
    env = ClipActions(ActionEnv())
    info = env.step(np.array([0.25, 1.5], dtype=np.float32))[4]
    assert info["action"].tolist() == [0.25, 1.5]


def test_clip_actions_refuses_discrete_actions():
    with pytest.raises(TypeError, match="Discrete"):
        ClipActions(CountingEnv())


def test_reward_scaling_multiplies():
    assert RewardScaling(RewardEnv(), 0.5).step(3.0)[1] == 1.5


@pytest.mark.parametrize(("reward", "clipped"), [(-4.0, -0.1), (2.5, 2.5), (99.0, 5.0)])
def test_clip_reward_has_the_bounds_of_v1(reward, clipped):
    assert ClipReward(RewardEnv()).step(reward)[1] == clipped


def test_skip_frames_repeats_the_action_and_sums_the_rewards():
    inner = ScriptedEnv(counted_vectors(10))
    env = SkipFrames(inner, 4)
    env.reset()
    obs, reward, terminated, truncated, info = env.step(3)
    assert inner.actions == [3, 3, 3, 3]
    assert (obs.tolist(), reward, terminated, truncated) == ([4.0], 1 + 2 + 3 + 4, False, False)
    assert info["num_frames"] == 4


def test_skip_frames_stops_at_the_end_and_reports_the_frames_really_played():
    env = SkipFrames(ScriptedEnv(counted_vectors(10), terminate_at=2), 4)
    env.reset()
    obs, reward, terminated, _, info = env.step(0)
    assert (obs.tolist(), reward, terminated, info["num_frames"]) == ([2.0], 3.0, True, 2)


def test_skip_frames_adds_up_frames_skipped_further_inside():
    env = SkipFrames(ScriptedEnv(counted_vectors(10), frames_per_step=4), 2)
    env.reset()
    assert env.step(0)[4]["num_frames"] == 8


def test_skip_frames_refuses_to_skip_nothing():
    with pytest.raises(ValueError, match="--env_frameskip=1"):
        SkipFrames(CountingEnv(), 0)


def steps_until_end(env, seed=None):
    env.reset(seed=seed)
    for count in range(1, 1000):
        _, _, terminated, truncated, info = env.step(0)
        if terminated or truncated:
            return count, terminated, truncated, info
    raise AssertionError("the episode does not end")


def test_a_time_limit_truncates_and_says_why():
    count, terminated, truncated, info = steps_until_end(TimeLimit(CountingEnv(length=100), 5))
    assert (count, terminated, truncated, info["terminated_by_timer"]) == (5, False, True, True)


def test_a_time_limit_counts_frames_not_steps():
    count, *_ = steps_until_end(TimeLimit(ScriptedEnv(counted_vectors(99), frames_per_step=4), 12))
    assert count == 3


def test_an_episode_that_ends_with_its_last_frame_is_terminated_not_truncated():
    count, terminated, truncated, info = steps_until_end(TimeLimit(CountingEnv(length=5), 5))
    assert (count, terminated, truncated) == (5, True, False)
    assert "terminated_by_timer" not in info


def test_a_time_limit_starts_anew_with_each_episode():
    env = TimeLimit(CountingEnv(length=100), 5)
    assert [steps_until_end(env)[0] for _ in range(3)] == [5, 5, 5]


def test_the_variation_of_a_time_limit_reaches_both_ends_and_no_further():
    env = TimeLimit(CountingEnv(length=100), 5, variation=2)
    assert {steps_until_end(env, seed)[0] for seed in range(60)} == {3, 4, 5, 6, 7}


def test_the_variation_of_a_time_limit_repeats_with_the_seed():
    env = TimeLimit(CountingEnv(length=100), 50, variation=20)
    assert steps_until_end(env, seed=3)[0] == steps_until_end(env, seed=3)[0]


def test_remaining_time_falls_from_one_to_zero():
    env = RemainingTime(TimeLimit(CountingEnv(length=100), 4))
    first, _ = env.reset()
    seen = [first["timer"].tolist()] + [env.step(0)[0]["timer"].tolist() for _ in range(4)]
    assert seen == [[1.0], [0.75], [0.5], [0.25], [0.0]]
    assert env.observation_space.contains(first)


def test_remaining_time_adds_to_a_dict_observation():
    env = RemainingTime(TimeLimit(ScriptedEnv(counted_vectors(9), key="obs"), 4))
    assert set(env.reset()[0]) == {"obs", "other", "timer"}


def test_remaining_time_asks_for_a_time_limit():
    with pytest.raises(ValueError, match="TimeLimit"):
        RemainingTime(CountingEnv())


def test_wrappers_show_how_many_agents_there_are_even_through_gymnasiums_own():
    env = RewardScaling(gymnasium.Wrapper(TwoAgentEnv()), 1.0)
    assert (env.num_agents, env.is_multiagent) == (2, True)
    assert (
        RewardScaling(CountingEnv(), 1.0).num_agents,
        RewardScaling(CountingEnv(), 1.0).is_multiagent,
    ) == (1, False)

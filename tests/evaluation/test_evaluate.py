import math

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sample_factory.envs.make import make_env
from sample_factory.evaluation.evaluate import EvaluationResult, Programme, evaluate_policy
from sample_factory.evaluation.player import RandomPlayer, load_player
from tests.doubles import TwoAgentEnv
from tests.evaluation.paying import PayingEnv


class LengthEnv(gymnasium.Env):
    """Lasts `length` steps and pays its length at the end."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length):
        self.length = length
        self.closed = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        done = self.count == self.length
        return np.zeros(1, np.float32), float(self.length * done), done, False, {}

    def close(self):
        self.closed = True


RANDOM = RandomPlayer(spaces.Discrete(2))


def test_a_hand_made_policy_earns_what_it_must(train):
    cfg = train(action=2)
    env = make_env(cfg.env, cfg, None)
    result = evaluate_policy(
        load_player(cfg, env), lambda index: PayingEnv(length=6), num_episodes=4, num_envs=3
    )
    assert result.episode_rewards == [12.0] * 4
    assert result.true_rewards == [60.0] * 4
    assert result.lengths == [6] * 4
    assert (result.mean_reward, result.mean_true_reward) == (12.0, 60.0)


def test_short_episodes_are_not_favoured():
    # Whichever ended first would be ten episodes of length 1 and none of length 50.
    lengths = {0: 1, 1: 50}
    result = evaluate_policy(RANDOM, lambda index: LengthEnv(lengths[index]), num_episodes=10, num_envs=2)
    assert sorted(result.lengths) == [1] * 5 + [50] * 5


def test_episodes_are_shared_out_evenly():
    ten = Programme(num_episodes=10, num_envs=4)
    assert [list(ten.episodes_of(env, 0, 1)) for env in ten.envs] == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]
    two_agents = Programme(num_episodes=5, num_envs=2)
    assert list(two_agents.episodes_of(0, 1, agents_per_env=2)) == [1]
    assert list(two_agents.episodes_of(0, 0, agents_per_env=2)) == [0, 4]


def test_episode_k_is_the_same_whoever_plays_it():
    class Lottery(LengthEnv):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.length = int(self.np_random.integers(1, 1000))
            return np.zeros(1, np.float32), {}

    def lengths(num_envs):
        return evaluate_policy(
            RANDOM, lambda index: Lottery(1), num_episodes=6, num_envs=num_envs, seed=3
        ).lengths

    assert lengths(1) == lengths(2) == lengths(4)
    assert len(set(lengths(1))) == 6


def test_more_environments_than_episodes_are_not_made():
    made = []

    def make(index):
        made.append(index)
        return LengthEnv(2)

    evaluate_policy(RANDOM, make, num_episodes=2, num_envs=8)
    assert made == [0, 1]


def test_agents_of_multi_agent_environments_share_the_episodes():
    result = evaluate_policy(RANDOM, lambda index: TwoAgentEnv(length=3), num_episodes=6, num_envs=2)
    assert result.lengths == [3] * 6


def test_the_same_seed_gives_the_same_scores():
    def play(seed):
        return evaluate_policy(
            RandomPlayer(spaces.Discrete(3), seed=1), make_noisy, num_episodes=5, num_envs=2, seed=seed
        ).episode_rewards

    def make_noisy(index):
        class Noisy(PayingEnv):
            def step(self, action):
                obs, reward, *rest = super().step(action)
                return obs, reward + self.np_random.normal(), *rest

        return Noisy(length=3)

    assert play(4) == play(4)
    assert play(4) != play(5)


def test_environments_are_closed_also_after_a_crash():
    class Crashing(LengthEnv):
        def step(self, action):
            raise RuntimeError("boom")

    envs = [Crashing(2), Crashing(2)]
    with pytest.raises(RuntimeError, match="boom"):
        evaluate_policy(RANDOM, lambda index: envs[index], num_episodes=2, num_envs=2)
    assert [env.closed for env in envs] == [True, True]


def test_no_episodes_have_no_mean():
    assert math.isnan(EvaluationResult().mean_reward)

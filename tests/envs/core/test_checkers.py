import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from sample_factory.envs.checkers import without_checkers
from sample_factory.envs.vector import ObsRows, SingleAgentVector


def layers(env):
    found = [type(env)]
    while isinstance(env, gymnasium.Wrapper):
        env = env.env
        found.append(type(env))
    return found


class Doubled(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2.0 * reward


def test_only_the_checkers_go_and_the_rest_keeps_its_order():
    env = Doubled(gymnasium.make("CartPole-v1"))
    assert {OrderEnforcing, PassiveEnvChecker} < set(layers(env))
    stripped = without_checkers(env)
    assert stripped is env
    assert layers(env) == [Doubled, TimeLimit, type(env.unwrapped)]


def test_a_checker_outside_of_everything_is_passed_by():
    env = OrderEnforcing(PassiveEnvChecker(Doubled(gymnasium.make("CartPole-v1"))))
    assert layers(without_checkers(env)) == [Doubled, TimeLimit, type(env.unwrapped)]


def test_steps_and_time_limits_are_the_same_as_with_them():
    def play(env):
        rows = ObsRows({"obs": np.zeros((1, 41, 4), np.float32)}, np.arange(1))
        vector = SingleAgentVector([env], [5])
        vector.reset(rows)
        said = []
        for row in range(1, 41):
            step = vector.step([row % 2], rows, row)
            said.append((step.rewards.tolist(), step.dones.tolist(), step.valids.tolist()))
        return rows.views["obs"][0].tolist(), said

    with_limit = gymnasium.make("CartPole-v1", max_episode_steps=9)
    plain = TimeLimit(with_limit.unwrapped.__class__(), max_episode_steps=9)
    assert play(with_limit) == play(plain)
    assert PassiveEnvChecker not in layers(with_limit)


def test_an_environment_that_replaces_another_loses_them_too():
    class Fragile(gymnasium.Wrapper):
        def step(self, action):
            raise RuntimeError("broken")

    class Replacements:
        made = None

        def replace(self, i, env, error, where):
            self.made = gymnasium.make("CartPole-v1")
            return self.made

        def finished_episode(self, i):
            pass

    replacements = Replacements()
    rows = ObsRows({"obs": np.zeros((1, 4, 4), np.float32)}, np.arange(1))
    vector = SingleAgentVector([Fragile(gymnasium.make("CartPole-v1"))], [0], replacements=replacements)
    vector.reset(rows)
    vector.step([0], rows, 1)
    vector.step([0], rows, 2)
    assert PassiveEnvChecker not in layers(replacements.made)


def test_a_space_asked_quickly_gives_the_answers_it_gave():
    asked = [-1, 0, 3, 4, 7, 8, 3.0, True, "3", None]
    asked += [np.int64(value) for value in (-1, 2, 3, 7, 8)] + [np.int32(5), np.float32(5.0), np.array(5)]
    for start in (0, 3):
        env = gymnasium.make("CartPole-v1")
        env.unwrapped.action_space = gymnasium.spaces.Discrete(5, start=start)
        expected = [env.action_space.contains(x) for x in asked]
        without_checkers(without_checkers(env))
        assert [env.action_space.contains(x) for x in asked] == expected
        assert [x in env.action_space for x in asked] == expected
        assert env.action_space == gymnasium.spaces.Discrete(5, start=start)


def test_a_wrong_action_is_still_refused():
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    step = without_checkers(env).step
    with pytest.raises(AssertionError, match="invalid"):
        step(np.int64(2))

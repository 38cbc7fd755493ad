"""Shaped rewards against numbers worked out by hand, on a stream of game variables without an engine."""

import gymnasium
import numpy as np
import pytest

from sample_factory.envs.contract import TRUE_REWARD, RewardShaping, find_interface
from sample_factory.envs.doom import rewards
from sample_factory.envs.doom.rewards import GatheringReward, ShapedReward


class ScriptedGame(gymnasium.Env):
    """Plays back a list of `(reward, info)`, then ends."""

    observation_space = gymnasium.spaces.Box(0, 255, (3, 2, 2), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, first_info, *steps, truncated=False):
        self.first_info, self.steps, self.truncated = first_info, steps, truncated
        self.position = 0

    def reset(self, *, seed=None, options=None):
        self.position = 0
        return self.observation_space.low, dict(self.first_info)

    def step(self, action):
        reward, info = self.steps[self.position]
        self.position += 1
        ended = self.position == len(self.steps)
        flags = (ended and not self.truncated, ended and self.truncated)
        return self.observation_space.low, reward, *flags, dict(info)


def play(env):
    """The rewards of one episode, and the last info."""
    env.reset()
    received, ended = [], False
    while not ended:
        _, reward, terminated, truncated, info = env.step(0)
        received.append(reward)
        ended = terminated or truncated
    return received, info


def shaped(*infos, scheme=None, **arguments):
    """The rewards for a stream of infos; an uninteresting step stands at the end, which is not shaped."""
    steps = [(0.0, info) for info in (*infos, infos[-1])]
    return play(ShapedReward(ScriptedGame({}, *steps), scheme or rewards.fighting_bots(), **arguments))[0]


@pytest.mark.parametrize(("variable", "before", "after", "expected"), [
    ("FRAGCOUNT", 0, 2, 2.0),
    ("FRAGCOUNT", 0, -1, -1.5),
    ("DEATHCOUNT", 1, 2, -0.75),
    ("HITCOUNT", 0, 3, 0.03),
    ("HITCOUNT", 0, 50, 0.05),
    ("DAMAGECOUNT", 0, 100, 0.3),
    ("DAMAGECOUNT", 0, 1000, 0.6),
    ("HEALTH", 50, 60, 0.05),
    ("HEALTH", 60, 50, -0.03),
    ("HEALTH", 70, -999900, -0.3),
    ("ARMOR", 0, 100, 0.5),
    ("ARMOR", 10, 0, -0.01),
    ("WEAPON6", 0, 1, 0.2),
    ("WEAPON3", 1, 0, -0.05),
    ("AMMO7", 0, 10, 0.02),
    ("AMMO0", 10, 0, -0.001),
])  # fmt: skip
def test_a_change_against_bots_is_worth_what_the_recipe_says(variable, before, after, expected):
    received = shaped({variable: before}, {variable: after})
    assert received == pytest.approx([0.0, expected, 0.0])


@pytest.mark.parametrize(("variable", "before", "after", "expected"), [
    ("FRAGCOUNT", 0, 1, 1.0),
    ("FRAGCOUNT", 1, 0, -0.001),
    ("DEATHCOUNT", 0, 1, -1.0),
    ("HITCOUNT", 0, 5, 0.0),
    ("DAMAGECOUNT", 0, 50, 0.5),
    ("HEALTH", 100, 90, -0.1),
    ("ARMOR", 100, 50, -0.05),
])  # fmt: skip
def test_a_change_in_self_play_is_worth_what_the_recipe_says(variable, before, after, expected):
    received = shaped({variable: before}, {variable: after}, scheme=rewards.fighting_agents())
    assert received == pytest.approx([0.0, expected, 0.0])


def test_changes_of_several_variables_add_up():
    received = shaped({"HEALTH": 100, "FRAGCOUNT": 0}, {"HEALTH": 80, "FRAGCOUNT": 1})
    assert received[1] == pytest.approx(1.0 - 0.06)


def test_the_first_step_of_an_episode_is_not_shaped():
    env = ShapedReward(
        ScriptedGame({"HEALTH": 100}, (0.0, {"HEALTH": 10}), (0.0, {"HEALTH": 10})), rewards.fighting_bots()
    )
    assert play(env)[0] == [0.0, 0.0]


@pytest.mark.parametrize("truncated", [False, True])
def test_the_last_step_of_an_episode_is_not_shaped(truncated):
    game = ScriptedGame({}, (0.0, {"HEALTH": 100}), (0.0, {"HEALTH": 10}), truncated=truncated)
    assert play(ShapedReward(game, rewards.fighting_bots()))[0] == [0.0, 0.0]


def test_the_step_of_a_respawn_is_not_shaped_but_the_death_is():
    alive, dead, again = {"HEALTH": 10, "DEAD": 0}, {"HEALTH": 0, "DEAD": 1}, {"HEALTH": 100, "DEAD": 0}
    assert shaped(alive, dead, again) == pytest.approx([0.0, -0.03, 0.0, 0.0])


def holding(weapon, ammo=10):
    return {"SELECTED_WEAPON": weapon, "SELECTED_WEAPON_AMMO": ammo}


@pytest.mark.parametrize(("weapon", "pay"), [(0, 0.0002), (2, 0.0002), (4, 0.001), (6, 0.002), (7, 0.002)])
def test_a_weapon_held_for_five_steps_pays_by_its_own_worth(weapon, pay):
    assert shaped(*[holding(weapon)] * 6) == pytest.approx([0, 0, 0, 0, pay, pay, 0])


def test_a_weapon_without_ammunition_pays_nothing():
    assert shaped(*[holding(4, ammo=0)] * 6) == [0.0] * 7


def test_a_change_of_weapon_starts_the_count_anew():
    stream = [holding(4)] * 4 + [holding(3)] * 5
    assert shaped(*stream) == pytest.approx([0] * 8 + [0.001, 0])


def test_a_weapon_outside_the_scheme_pays_nothing():
    assert shaped(*[holding(9)] * 6) == [0.0] * 7


def test_the_shaping_is_added_to_what_the_scenario_pays():
    game = ScriptedGame({}, (1.0, {"HEALTH": 0}), (2.0, {"HEALTH": 10}), (4.0, {"HEALTH": 10}))
    assert play(ShapedReward(game, rewards.fighting_bots()))[0] == pytest.approx([1.0, 2.05, 4.0])


def test_the_true_reward_of_a_battle_leaves_the_shaping_out():
    game = ScriptedGame({}, (1.0, {"HEALTH": 0}), (2.0, {"HEALTH": 10}), (4.0, {"HEALTH": 10}))
    assert play(ShapedReward(game, rewards.fighting_bots()))[1][TRUE_REWARD] == 7.0


def test_the_true_reward_against_bots_is_the_number_of_frags():
    game = ScriptedGame({}, (1.0, {"FRAGCOUNT": 3}), (0.0, {"FRAGCOUNT": 5}))
    env = ShapedReward(game, rewards.fighting_bots(), rewards.frags)
    assert play(env)[1][TRUE_REWARD] == 5.0


@pytest.mark.parametrize(("own", "other", "expected"), [(3, 1, 1.0), (1, 3, 0.0), (2, 2, 0.0)])
def test_the_true_reward_of_self_play_is_one_for_a_sole_winner(own, other, expected):
    info = {"FRAGCOUNT": own, "PLAYER_COUNT": 2, "PLAYER1_FRAGCOUNT": own, "PLAYER2_FRAGCOUNT": other}
    assert rewards.sole_winner(info, 0.0) == expected


def test_population_based_training_can_replace_the_scheme():
    env = ShapedReward(
        ScriptedGame({}, *[(0.0, {"HEALTH": h}) for h in (0, 10, 10)]), rewards.fighting_bots()
    )
    found = find_interface(env, RewardShaping)
    scheme = found.get_current_reward_shaping(0)
    scheme["delta"]["HEALTH"] = [1.0, 0.0]
    found.set_reward_shaping(scheme, 0)
    assert play(env)[0] == [0.0, 10.0, 0.0]


def test_a_replaced_scheme_does_not_change_the_default():
    env = ShapedReward(ScriptedGame({}), rewards.fighting_bots())
    env.set_reward_shaping({"delta": {}, "selected_weapon": {}}, 0)
    assert env.get_default_reward_shaping() == rewards.fighting_bots()


def test_a_suspicious_reward_is_warned_about_once_an_episode(caplog):
    shaped(*[{"FRAGCOUNT": frags} for frags in (0, 10, 20, 30)])
    assert len(caplog.records) == 1


def gathering(*steps):
    return play(GatheringReward(ScriptedGame({"HEALTH": 100}, *[(0.01, {"HEALTH": h}) for h in steps])))


def test_found_health_pays_one():
    assert gathering(92, 100, 84)[0] == pytest.approx([0.01, 1.01, 0.01])


def test_the_true_reward_of_gathering_is_what_the_scenario_paid():
    assert gathering(92, 100, 84)[1][TRUE_REWARD] == pytest.approx(0.03)

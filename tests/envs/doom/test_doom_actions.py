"""Actions press the buttons the recipes say."""

import numpy as np
import pytest
from gymnasium import spaces

from sample_factory.envs.doom import actions
from sample_factory.envs.doom.actions import ButtonEncoder
from sample_factory.envs.doom.specs import DOOM_SPECS
from sample_factory.envs.spaces import UnsupportedSpaceError


def pressed(buttons, space, action):
    values = ButtonEncoder(space)(action)
    return {name: value for name, value in zip(buttons, values, strict=True) if value}


def test_action_zero_of_a_discrete_space_presses_nothing():
    assert ButtonEncoder(spaces.Discrete(4))(0) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("action", "button"), [(1, "MOVE_LEFT"), (2, "MOVE_RIGHT"), (3, "ATTACK")])
def test_the_actions_of_doom_basic_are_left_right_and_attack(action, button):
    spec = next(spec for spec in DOOM_SPECS if spec.name == "doom_basic")
    assert pressed(spec.scenario.buttons, spec.action_space, action) == {button: 1.0}


def test_turning_and_attacking_are_independent_heads():
    assert pressed(actions.TURN_ATTACK_BUTTONS, actions.turn_attack(), (2, 1)) == {
        "TURN_RIGHT": 1.0,
        "ATTACK": 1.0,
    }


def test_the_extended_actions_strafe_left_before_right():
    assert pressed(actions.EXTENDED_BUTTONS, actions.extended(), (1, 1, 1, 0)) == {
        "TURN_LEFT": 1.0,
        "MOVE_FORWARD": 1.0,
        "MOVE_LEFT": 1.0,
    }


@pytest.mark.parametrize(("choice", "angle"), [(0, -10.0), (5, 0.0), (6, 2.0), (10, 10.0)])
def test_the_battle_turns_by_eleven_angles(choice, angle):
    assert ButtonEncoder(actions.discretized_no_weapon())((0, 0, 0, 0, choice))[-1] == angle


def test_the_battle_strafes_right_before_left_and_sprints():
    assert pressed(actions.NO_WEAPON_BUTTONS, actions.discretized_no_weapon(), (2, 1, 1, 1, 5)) == {
        "MOVE_BACKWARD": 1.0,
        "MOVE_RIGHT": 1.0,
        "ATTACK": 1.0,
        "SPEED": 1.0,
    }


def test_the_duel_selects_weapons_and_opens_doors():
    action = (0, 0, 7, 0, 0, 1, 20)
    assert pressed(actions.FULL_USE_BUTTONS, actions.full_discretized(with_use=True), action) == {
        "SELECT_WEAPON7": 1.0,
        "USE": 1.0,
        "TURN_LEFT_RIGHT_DELTA": 12.5,
    }


@pytest.mark.parametrize(("space", "logits"), [
    (actions.discretized_no_weapon(), 21),
    (actions.full_discretized(), 39),
    (actions.full_discretized(with_use=True), 41),
])  # fmt: skip
def test_the_number_of_logits_is_that_of_v1(space, logits):
    assert sum(int(head.n) for head in space.spaces) == logits


@pytest.mark.parametrize(("value", "angle"), [(0.5, 3.75), (-1.0, -7.5), (3.0, 7.5)])
def test_a_continuous_turn_is_scaled_and_kept_within_bounds(value, angle):
    action = (0, 0, 2, 0, 0, np.array([value], np.float32))
    assert pressed(actions.MIXED_BUTTONS, actions.mixed(), action) == {
        "SELECT_NEXT_WEAPON": 1.0,
        "TURN_LEFT_RIGHT_DELTA": angle,
    }


def test_a_flat_row_of_floats_presses_the_same_buttons_as_a_tuple():
    encoder = ButtonEncoder(actions.mixed())
    row = np.array([1, 2, 0, 1, 0, 0.25], np.float32)
    assert encoder(row) == encoder((1, 2, 0, 1, 0, np.array([0.25])))


@pytest.mark.parametrize("spec", DOOM_SPECS, ids=lambda spec: spec.name)
def test_the_action_space_of_every_spec_covers_its_buttons(spec):
    assert ButtonEncoder(spec.action_space).num_buttons == len(spec.scenario.buttons)


def test_a_space_that_presses_no_buttons_is_refused_with_a_sentence():
    with pytest.raises(UnsupportedSpaceError, match="use Discrete"):
        ButtonEncoder(spaces.MultiBinary(3))

"""The measurements are 23 numbers in a fixed order and within their bounds."""

import numpy as np

from sample_factory.envs.doom.measurements import HIGH, LOW, measurements_of

SCREEN = {
    "SELECTED_WEAPON": 3.0,
    "SELECTED_WEAPON_AMMO": 30.0,
    "HEALTH": 60.0,
    "ARMOR": 15.0,
    "USER2": 7.0,
    "ATTACK_READY": 1.0,
    "PLAYER_COUNT": 8.0,
    **{f"WEAPON{k}": float(k == 3) for k in range(10)},
    **{f"AMMO{k}": 15.0 * k for k in range(10)},
}


def test_every_variable_stands_in_its_place_and_scale():
    expected = [3, 2, 2, 0.5, 0.7, 1, 1.6, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 5, 5]
    np.testing.assert_allclose(measurements_of(SCREEN), expected, rtol=1e-6)


def test_a_scenario_that_reports_nothing_has_one_player_and_zeros():
    expected = np.zeros(23)
    expected[6] = 0.2
    np.testing.assert_allclose(measurements_of({}), expected, rtol=1e-6)


def test_the_bounds_are_those_of_v1():
    assert LOW.tolist() == [0, 0, -1, -1, -50, 0, 0] + [0] * 16
    assert HIGH.tolist() == [20, 50, 50, 50, 50, 1, 10] + [5] * 8 + [50] * 8


def test_a_crushed_player_stays_within_the_bounds():
    assert measurements_of({"HEALTH": -999900.0})[2] == -1.0


def test_unknown_weapons_and_ammunition_are_not_negative():
    broken = {"SELECTED_WEAPON": -1.0, "SELECTED_WEAPON_AMMO": -1.0, "WEAPON2": -1.0, "AMMO2": -1.0}
    assert measurements_of(broken).min() == 0.0

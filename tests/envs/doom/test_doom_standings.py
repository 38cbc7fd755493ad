"""Standings, statistics and the bots' curriculum, from numbers alone."""

import numpy as np
import pytest

from sample_factory.envs.doom.bots import BotRoster, bot_definitions
from sample_factory.envs.doom.standings import Standing, match_statistics, next_difficulty, standing_of


def info(own, *frags, deaths=0):
    players = {f"PLAYER{k}_FRAGCOUNT": value for k, value in enumerate(frags, start=1)}
    return {"FRAGCOUNT": own, "DEATHCOUNT": deaths, "PLAYER_COUNT": len(frags), **players}


@pytest.mark.parametrize(("own", "frags", "place", "gap"), [
    (5, (5, 3, 1), 1, -2),
    (3, (5, 3, 1), 2, 2),
    (1, (5, 3, 1), 3, 4),
    (5, (5, 5, 1), 1, 0),
    (-1, (0, -1), 2, 1),
    (0, (0,), 1, 0),
])  # fmt: skip
def test_the_place_and_the_gap_to_the_leader(own, frags, place, gap):
    assert standing_of(info(own, *frags)) == Standing(place, gap, len(frags))


def test_the_statistics_of_a_match():
    assert match_statistics(info(3, 5, 3, deaths=1)) == {
        "FRAGCOUNT": 3.0,
        "DEATHCOUNT": 1.0,
        "KDR": 1.5,
        "FINAL_PLACE": 2.0,
        "LEADER_GAP": 2.0,
    }


@pytest.mark.parametrize(("standing", "expected"), [
    (Standing(1, -1, 8), 30),
    (Standing(1, 0, 8), 20),
    (Standing(3, 2, 8), 20),
    (Standing(7, 2, 8), 10),
    (Standing(8, 2, 8), 10),
])  # fmt: skip
def test_bots_grow_with_victories_and_shrink_with_defeats(standing, expected):
    assert next_difficulty(20, standing) == expected


@pytest.mark.parametrize(("difficulty", "standing", "expected"), [
    (150, Standing(1, -1, 8), 150),
    (0, Standing(8, 9, 8), 0),
])  # fmt: skip
def test_the_difficulty_stays_within_its_range(difficulty, standing, expected):
    assert next_difficulty(difficulty, standing) == expected


def test_bots_are_drawn_around_the_difficulty_and_all_differ():
    commands = BotRoster(count=7, difficulty=50).commands(np.random.default_rng(0))
    names = [command.removeprefix("addbot ") for command in commands[1:]]
    assert commands[0] == "removebots"
    assert len(set(names)) == 7
    assert all(10 <= int(name.split("_")[1]) <= 100 for name in names)


def test_bots_beyond_the_defined_ones_are_called_without_a_name():
    commands = BotRoster(count=12, difficulty=50).commands(np.random.default_rng(0))
    assert commands.count("addbot") == 2


@pytest.mark.parametrize(("difficulty", "level"), [(-100, 10), (1000, 100)])
def test_no_bot_is_called_that_is_not_defined(difficulty, level):
    command = BotRoster(count=1, difficulty=difficulty).commands(np.random.default_rng(0))[1]
    assert command == f"addbot BOT_{level}_0"
    assert f"name BOT_{level}_0\n" in bot_definitions()


def test_a_hundred_bots_are_defined():
    assert bot_definitions().count("name BOT_") == 100

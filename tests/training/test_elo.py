"""Elo ratings, against numbers worked out by hand."""

import pytest

from sample_factory.algorithms.appo.elo import Ratings, expected_score


def test_four_hundred_points_are_ten_wins_in_eleven():
    assert expected_score(1600, 1200) == pytest.approx(10 / 11)
    assert expected_score(1200, 1200) == 0.5


def test_equal_players_exchange_half_a_step():
    ratings = Ratings(step=16)
    ratings.match(["a", "b"], [1.0, 0.0])
    assert (ratings["a"], ratings["b"]) == (1208.0, 1192.0)


def test_a_draw_takes_from_the_favourite():
    ratings = Ratings(step=16)
    ratings.set("a", 1600.0)
    ratings.match(["a", "b"], [3.0, 3.0])
    assert ratings["a"] == pytest.approx(1600 - 16 * (10 / 11 - 0.5))
    assert ratings["a"] + ratings["b"] == pytest.approx(2800)


def test_in_a_match_of_three_every_pair_counts_half():
    ratings = Ratings(step=16)
    ratings.match(["a", "b", "c"], [2.0, 1.0, 0.0])
    assert [ratings[player] for player in "abc"] == [1208.0, 1200.0, 1192.0]
    assert ratings.matches == {"a": 1, "b": 1, "c": 1}


def test_playing_against_oneself_tells_nothing():
    ratings = Ratings()
    assert not ratings.match(["a", "a"], [1.0, 0.0])
    assert not ratings.matches


def test_a_player_who_wins_three_of_four_games_ends_up_near_the_rating_that_says_so():
    ratings = Ratings(step=4)
    for game in range(4000):
        ratings.match(["a", "b"], [1.0, 0.0] if game % 4 else [0.0, 1.0])
    assert expected_score(ratings["a"], ratings["b"]) == pytest.approx(0.75, abs=0.02)

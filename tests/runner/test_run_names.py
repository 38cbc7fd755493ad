"""Names of experiments and generators of parameters."""

from __future__ import annotations

import pytest

from sample_factory.runner.naming import experiment_name, short_names
from sample_factory.runner.parameters import ParamGrid, ParamList, ParamSample, seeds


@pytest.mark.parametrize(
    ("parameter", "short"),
    [
        ("seed", "see"),
        ("env", "env"),
        ("lr", "lr"),
        ("ppo_epochs", "p.epo"),
        ("with_vtrace", "w.vtr"),
        ("num_envs_per_worker", "n.e.p.wor"),
        ("train_for_env_steps", "t.f.e.ste"),
        ("model.hidden-size", "m.h.siz"),
    ],
)
def test_a_parameter_is_shortened_as_v1_did(parameter: str, short: str) -> None:
    assert short_names([parameter]) == {parameter: short}


def test_of_two_parameters_that_shorten_alike_the_later_one_is_longer() -> None:
    assert short_names(["hidden_size", "head_size"]) == {"hidden_size": "h.siz", "head_size": "h.size"}


def test_parameters_stay_distinct_when_their_letters_are_used_up() -> None:
    short = short_names(["seed", "see", "a_b", "a.b", "a-b"])
    assert len(set(short.values())) == 5


def test_a_name_has_two_digits_of_index_then_base_then_parameters() -> None:
    params = {"seed": 0, "env": "doom_my_way_home"}
    name = experiment_name(0, "basic_envs_fs4", params, params)
    assert name == "00_basic_envs_fs4_see_0_env_doom_my_way_home"


def test_an_index_above_99_is_not_cut() -> None:
    assert experiment_name(123, "x", {}, ()) == "123_x"


def test_values_that_can_not_be_in_a_file_name_are_replaced() -> None:
    params = {"path": "/a/b c"}
    assert experiment_name(1, "x", params, params) == "01_x_pat_-a-b-c"


def test_a_grid_changes_the_first_parameter_slowest() -> None:
    grid = ParamGrid([("seed", [1, 2]), ("env", ["a", "b"])])
    assert list(grid.generate_params(randomize=False)) == [
        {"seed": 1, "env": "a"},
        {"seed": 1, "env": "b"},
        {"seed": 2, "env": "a"},
        {"seed": 2, "env": "b"},
    ]


def test_an_empty_grid_is_one_plain_experiment() -> None:
    assert list(ParamGrid([]).generate_params()) == [{}]


def test_a_tuple_of_parameters_takes_values_that_belong_together() -> None:
    grid = ParamGrid([(("rollout", "recurrence"), [(32, 32), (64, 1)])])
    assert grid.combinations() == [{"rollout": 32, "recurrence": 32}, {"rollout": 64, "recurrence": 1}]


def test_shuffling_keeps_the_types_of_mixed_values() -> None:
    values = [1, "a", 0.5, True, None]
    shuffled = [params["x"] for params in ParamGrid([("x", values)]).generate_params(randomize=True)]
    assert sorted(map(repr, shuffled)) == sorted(map(repr, values))


def test_shuffling_changes_the_order_and_is_the_same_every_time() -> None:
    values = list(range(20))
    first, second = ([p["x"] for p in ParamGrid([("x", values)]).generate_params()] for _ in range(2))
    assert first == second != values


def test_a_list_gives_its_combinations_in_order() -> None:
    combinations = [{"a": 1}, {"b": 2}]
    assert list(ParamList(combinations).generate_params(randomize=False)) == combinations


def test_a_sample_draws_every_combination_at_most_once() -> None:
    drawn = ParamSample({"a": [1, 2, 3], "b": [1, 2, 3]}, num_trials=8).combinations()
    assert len({(params["a"], params["b"]) for params in drawn}) == 8


def test_a_sample_that_asks_for_more_than_there_is_gets_all_of_it() -> None:
    assert len(ParamSample({"a": [1, 2]}, num_trials=9).combinations()) == 2


def test_a_log_range_is_drawn_inside_its_limits_over_all_magnitudes() -> None:
    space = {"lr": {"low": 1e-6, "high": 1e-1, "log": True}}
    drawn = [params["lr"] for params in ParamSample(space, num_trials=200).combinations()]
    assert all(1e-6 <= value <= 1e-1 for value in drawn)
    assert 0.3 < sum(value < 10**-3.5 for value in drawn) / 200 < 0.7


def test_another_seed_is_another_draw() -> None:
    space = {"lr": {"low": 0.0, "high": 1.0}}
    assert ParamSample(space, 3, seed=1).combinations() != ParamSample(space, 3, seed=2).combinations()


def test_random_seeds_have_seven_digits() -> None:
    assert all(1_000_000 <= seed < 9_999_999 for seed in seeds(100))

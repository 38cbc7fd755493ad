"""Population-based training: who is replaced, what changes, what is kept on disk."""

import contextlib
import json

import numpy as np
import pytest

from sample_factory.algorithms.appo.board import Board
from sample_factory.algorithms.appo.mutation import MutationRules, mutate, tuned_hyper_parameters
from sample_factory.algorithms.appo.population import (
    EVENTS_FILE,
    Population,
    Ranking,
    hyper_parameters_path,
    is_worth_replacing,
    reward_shaping_path,
)
from sample_factory.config.experiment_files import write_json
from sample_factory.config.parsing import default_cfg
from sample_factory.processes.shared_memory import SharedArrays

RULES = MutationRules(rate=1.0, perturb_min=1.05, perturb_max=1.5, rollout=32, initial_batch_size=1024)


def make_board(num_policies):
    return Board(SharedArrays(Board.specs(num_policies, 1, 1, 1, 1)))


@pytest.fixture
def cfg():
    cfg = default_cfg()
    cfg.num_policies = 4
    cfg.with_pbt = True
    cfg.pbt_start_mutation = 1000
    cfg.pbt_period_env_steps = 100
    return cfg


def die(*_):
    raise SystemExit("killed")


def make_population(cfg, directory, shaping=None, board=None, seed=0):
    board = board or make_board(cfg.num_policies)
    return Population(cfg, board, directory, shaping, seed), board


def members(directory, count=4):
    return [json.loads(hyper_parameters_path(directory, p).read_text()) for p in range(count)]


def events(directory):
    path = directory / EVENTS_FILE
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_both_gaps_must_be_exceeded():
    assert is_worth_replacing(own=1.0, candidate=2.0, gap_absolute=0.5, gap_relative=0.1)
    assert not is_worth_replacing(own=1.0, candidate=2.0, gap_absolute=1.5, gap_relative=0.1)
    assert not is_worth_replacing(own=1.0, candidate=2.0, gap_absolute=0.5, gap_relative=0.6)


@pytest.mark.parametrize(
    ("own", "candidate", "expected"), [(-10, -5, True), (-10, -9.5, False), (-1, 0, True)]
)
def test_the_relative_gap_is_right_for_negative_objectives(own, candidate, expected):
    assert is_worth_replacing(own, candidate, gap_absolute=1e-6, gap_relative=0.1) is expected


def test_ties_go_to_the_higher_index():
    assert Ranking.of([1.0, 3.0, 3.0, 2.0]).order == [2, 1, 3, 0]


def test_gamma_and_batch_size_are_tuned_only_on_request():
    cfg = default_cfg()
    assert set(tuned_hyper_parameters(cfg)) == {
        "learning_rate",
        "exploration_loss_coeff",
        "value_loss_coeff",
        "max_grad_norm",
        "ppo_clip_ratio",
        "ppo_clip_value",
    }
    cfg.pbt_optimize_gamma = cfg.pbt_optimize_batch_size = True
    assert {"gamma", "batch_size"} <= set(tuned_hyper_parameters(cfg))


def test_numbers_change_by_a_factor_within_the_bounds():
    rng = np.random.default_rng(0)
    for _ in range(200):
        changed = mutate({"learning_rate": 0.01}, {"learning_rate": 0.01}, RULES, rng)["learning_rate"]
        factor = max(changed / 0.01, 0.01 / changed)
        assert 1.05 <= factor <= 1.5


def test_gamma_moves_its_distance_from_one():
    rng = np.random.default_rng(0)
    for _ in range(200):
        changed = mutate({"gamma": 0.99}, {"gamma": 0.99}, RULES, rng)["gamma"]
        factor = max((1 - changed) / 0.01, 0.01 / (1 - changed))
        assert 1.01 - 1e-9 <= factor <= 1.2 + 1e-9


def test_batch_sizes_stay_whole_rollouts_and_below_one_and_a_half():
    rng = np.random.default_rng(0)
    size = 1024
    for _ in range(100):
        size = mutate({"batch_size": size}, {"batch_size": 1024}, RULES, rng)["batch_size"]
        assert size % 32 == 0
        assert 32 <= size <= 1536


def test_a_rate_of_zero_changes_nothing():
    rules = MutationRules(0.0, 1.05, 1.5, 32, 1024)
    values = {"learning_rate": 0.01, "shaping": {"kill": [1.0, -1.0], "on": True}}
    assert mutate(values, values, rules, np.random.default_rng(0)) == values


def test_nested_values_and_pairs_are_mutated_one_by_one():
    values = {"delta": {"HEALTH": [1.0, -1.0]}}
    changed = mutate(values, values, RULES, np.random.default_rng(1))["delta"]["HEALTH"]
    assert changed[0] != 1.0
    assert changed[1] != -1.0
    assert changed[0] != -changed[1]


def test_all_but_the_reference_policy_start_mutated(cfg, tmp_path):
    cfg.pbt_mutation_rate = 1.0
    make_population(cfg, tmp_path)
    reference, *others = members(tmp_path)
    assert reference == tuned_hyper_parameters(cfg)
    assert all(member != reference for member in others)


def test_nothing_happens_before_the_start_or_the_period(cfg, tmp_path):
    population, board = make_population(cfg, tmp_path)
    board.env_steps[:] = 999
    population.step([0.0, 1.0, 2.0, 3.0])
    assert not events(tmp_path)
    board.env_steps[:] = 1000
    population.step([0.0, 1.0, 2.0, 3.0])
    assert len(events(tmp_path)) == 4
    board.env_steps[:] = 1100
    population.step([0.0, 1.0, 2.0, 3.0])
    assert len(events(tmp_path)) == 4


def test_nothing_happens_until_every_policy_has_an_objective(cfg, tmp_path):
    population, board = make_population(cfg, tmp_path)
    board.env_steps[:] = 2000
    population.step([0.0, None, 2.0, 3.0])
    assert not events(tmp_path)


def test_weak_policies_get_the_weights_of_strong_ones_after_these_have_saved(cfg, tmp_path):
    population, board = make_population(cfg, tmp_path)
    board.env_steps[:] = 2000
    population.step([0.0, 1.0, 10.0, 11.0])  # 0.3 of 4 policies: the best two and the worst two
    replaced = {event["policy"]: event["donor"] for event in events(tmp_path) if event["event"] == "replaced"}
    assert set(replaced) == {0, 1}
    assert set(replaced.values()) <= {2, 3}
    assert not board.load_requests.any()
    board.saves_done[:] = board.save_requests
    population.step([0.0, 1.0, 10.0, 11.0])
    assert board.load_requests.tolist() == [1, 1, 0, 0]
    assert [int(board.load_from[p]) for p in (0, 1)] == [replaced[0], replaced[1]]


def test_the_reference_policy_is_never_mutated_even_when_it_is_replaced(cfg, tmp_path):
    cfg.pbt_mutation_rate = 1.0
    population, board = make_population(cfg, tmp_path)
    board.env_steps[:] = 2000
    population.step([0.0, 1.0, 10.0, 11.0])
    board.saves_done[:] = board.save_requests
    population.step([0.0, 1.0, 10.0, 11.0])
    all_members = members(tmp_path)
    assert all_members[0] in all_members[2:]
    assert all_members[1] not in all_members[2:]


def test_equally_good_policies_are_not_replaced(cfg, tmp_path):
    population, board = make_population(cfg, tmp_path)
    board.env_steps[:] = 2000
    population.step([10.0, 10.0, 10.0, 10.0])
    assert {event["event"] for event in events(tmp_path)} == {"kept", "mutated"}


def test_a_resumed_population_is_where_it_was(cfg, tmp_path):
    population, board = make_population(cfg, tmp_path)
    board.env_steps[:] = 2000
    population.step([0.0, 1.0, 10.0, 11.0])
    board.saves_done[:] = board.save_requests
    population.step([0.0, 1.0, 10.0, 11.0])
    before = members(tmp_path)
    resumed, new_board = make_population(cfg, tmp_path, seed=99)
    assert members(tmp_path) == before
    new_board.env_steps[:] = 2050  # not due again yet
    resumed.step([0.0, 1.0, 10.0, 11.0])
    assert len(events(tmp_path)) == 4


def test_policies_start_with_the_hyper_parameters_a_user_gives_them(cfg, tmp_path):
    cfg.pbt_mutation_rate = 1.0
    write_json(hyper_parameters_path(tmp_path, 2), {"learning_rate": 0.5})
    make_population(cfg, tmp_path)
    assert members(tmp_path)[2] == tuned_hyper_parameters(cfg) | {"learning_rate": 0.5}


def test_a_policy_waiting_for_weights_when_the_session_died_gets_them_in_the_next(cfg, tmp_path):
    population, board = make_population(cfg, tmp_path)
    board.env_steps[:] = 2000
    population.step([0.0, 1.0, 10.0, 11.0])
    donors = [event["donor"] for event in events(tmp_path) if event["event"] == "replaced"]

    resumed, board = make_population(cfg, tmp_path, seed=99)
    assert all(board.save_requests[donor] for donor in donors)
    board.saves_done[:] = board.save_requests
    resumed.step([None] * 4)
    assert board.load_from[:2].tolist() == donors
    assert board.load_requests.tolist() == [1, 1, 0, 0]

    board.loads_done[:] = board.load_requests  # once the learners have the weights, nobody waits any more
    resumed.step([None] * 4)
    _, board = make_population(cfg, tmp_path)
    assert not board.save_requests.any()


@pytest.mark.parametrize("last_act", ["the event", "the state", "the files"])
def test_a_decision_cut_short_by_a_death_is_made_whole_or_not_at_all(cfg, tmp_path, monkeypatch, last_act):
    cfg.pbt_mutation_rate = 1.0
    population, board = make_population(cfg, tmp_path)
    board.env_steps[3] = 2000
    before = members(tmp_path)
    if last_act == "the event":
        monkeypatch.setattr(population, "_save_state", die)
    elif last_act == "the state":
        monkeypatch.setattr(population, "_announce", die)
    with contextlib.suppress(SystemExit):
        population.step([10.0, 10.0, 10.0, 1.0 - 1e-9])

    _, board = make_population(cfg, tmp_path)
    decided = last_act != "the event"
    assert len(events(tmp_path)) == decided
    assert (members(tmp_path)[3] != before[3]) == decided
    assert board.save_requests.any() == decided


def test_a_population_resumes_with_more_policies(cfg, tmp_path):
    make_population(cfg, tmp_path)
    before = members(tmp_path)
    cfg.num_policies = 6
    make_population(cfg, tmp_path)
    assert members(tmp_path) == before
    assert len(members(tmp_path, 6)) == 6


def test_reward_shaping_is_written_and_announced(cfg, tmp_path):
    cfg.pbt_mutation_rate = 1.0
    shaping = {"delta": {"HEALTH": [0.1, -0.1]}}
    _, board = make_population(cfg, tmp_path, shaping)
    assert board.shaping_number.tolist() == [1, 1, 1, 1]
    assert json.loads(reward_shaping_path(tmp_path, 0).read_text()) == shaping
    assert json.loads(reward_shaping_path(tmp_path, 1).read_text()) != shaping


def test_summaries_name_every_hyper_parameter(cfg, tmp_path):
    population, _ = make_population(cfg, tmp_path, {"delta": {"HEALTH": [0.1, -0.1]}})
    scalars = population.scalars(0)
    assert scalars["zz_pbt/cfg_learning_rate"] == cfg.learning_rate
    assert scalars["zz_pbt/rew_delta_HEALTH_0"] == 0.1

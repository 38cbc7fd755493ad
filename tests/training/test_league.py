"""The league: who joins the pool, who takes a seat, who plays whom, and what survives."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from sample_factory.algorithms.appo.board import Board, Stopwatch
from sample_factory.algorithms.appo.league import (
    EVENTS_FILE,
    MATCHES_PER_SITTING,
    League,
    Member,
    least_missed,
)
from sample_factory.algorithms.appo.league_keeper import LeagueKeeper, failed, member_path
from sample_factory.algorithms.appo.league_mapping import Guests, LeagueMapping
from sample_factory.algorithms.appo.matches import MatchBook, member_player
from sample_factory.algorithms.appo.session import ExitStatus, run_session
from sample_factory.algorithms.appo.weights import NOT_PUBLISHED, WeightsLayout, WeightStore
from sample_factory.config.config import Config
from sample_factory.config.errors import ConfigError
from sample_factory.config.parsing import default_cfg, parse_args
from sample_factory.envs.registry import temporary_registrations
from sample_factory.envs.vector import EpisodeEnd
from sample_factory.model.checkpoints import CheckpointStore
from sample_factory.monitoring.log import close_logging
from sample_factory.monitoring.metrics import read_metrics
from sample_factory.monitoring.reports import MatchReport
from sample_factory.processes.shared_memory import SharedArrays
from sample_factory_examples.train_rock_paper_scissors import register_custom_components

LAYOUT = WeightsLayout({"weight": ((2,), "float32")})


@pytest.fixture
def cfg() -> Config:
    cfg = default_cfg()
    cfg.num_policies = 2
    cfg.league_fraction = 0.5
    cfg.league_period_env_steps = 1000
    cfg.league_pool_size = 3
    cfg.league_seats = 1
    return cfg


@pytest.fixture
def board() -> Board:
    return Board(SharedArrays(Board.specs(2, 1, 1, 1, 1, num_seats=1)))


@pytest.fixture
def league(cfg: Config, board: Board, tmp_path: Path) -> League:
    return League(cfg, board, tmp_path, seed=0)


def weights() -> WeightStore:
    return WeightStore(LAYOUT, SharedArrays(LAYOUT.specs()))


def keeper(directory: Path, board: Board, store: WeightStore) -> LeagueKeeper:
    return LeagueKeeper(directory, board, [store], LAYOUT, Stopwatch(board, 0))


def train_to(directory: Path, board: Board, policy_id: int, env_steps: int, size: int = 2) -> None:
    """What a learner does when the league asks it to save."""
    board.env_steps[policy_id] = env_steps
    store = CheckpointStore(directory / f"checkpoint_p{policy_id}")
    state = {"model": {"weight": torch.full((size,), float(env_steps))}}
    store.save(state, policy_version=env_steps // 10, env_steps=env_steps)


def join(league: League, board: Board, directory: Path, env_steps: int, policy_id: int = 0) -> None:
    train_to(directory, board, policy_id, env_steps)
    league.step()
    board.saves_done[:] = board.save_requests
    league.step()


def events(directory: Path) -> list[tuple[str, int]]:
    lines = (directory / EVENTS_FILE).read_text().splitlines()
    return [(event["event"], event["member"]) for event in map(json.loads, lines)]


def test_a_checkpoint_joins_after_every_period(league: League, board: Board, tmp_path: Path):
    for env_steps in (999, 1000, 1500, 2000):
        join(league, board, tmp_path, env_steps)
    assert [member.env_steps for member in league.members.values()] == [1000, 2000]
    assert all(member_path(tmp_path, number).exists() for number in league.members)


def test_a_full_pool_keeps_policies_of_all_ages(league: League, board: Board, tmp_path: Path):
    for env_steps in (1000, 2000, 3000, 9000, 16000):
        join(league, board, tmp_path, env_steps)
    assert [member.env_steps for member in league.members.values()] == [1000, 9000, 16000]
    assert len(list((tmp_path / "league").glob("*.pth"))) == 3


def test_the_youngest_and_the_oldest_never_leave():
    members = [Member(i, 0, i, env_steps) for i, env_steps in enumerate((0, 10, 11, 30))]
    assert least_missed(members).number == 1


def test_a_member_takes_a_seat_once_its_weights_are_there(league: League, board: Board, tmp_path: Path):
    store = weights()
    join(league, board, tmp_path, 1000)
    assert board.seat_wanted[0] == 0
    assert board.seat_loaded[0] == -1
    keeper(tmp_path, board, store).poll(0.0)
    assert board.seat_loaded[0] == 0
    loaded = {"weight": np.zeros(2, np.float32)}
    store.load(loaded)
    assert loaded["weight"].tolist() == [1000.0, 1000.0]


def test_a_seat_passes_on_after_enough_matches(league: League, board: Board, tmp_path: Path):
    cfg_pool = (1000, 2000, 3000)
    for env_steps in cfg_pool:
        join(league, board, tmp_path, env_steps)
    seated = keeper(tmp_path, board, weights())
    seen = set()
    for _ in range(20):
        seated.poll(0.0)
        seen.add(int(board.seat_loaded[0]))
        match = MatchReport((0, member_player(int(board.seat_loaded[0]))), (1.0, 0.0))
        league.take([match] * (MATCHES_PER_SITTING - 1))
        league.step()
        assert board.seat_wanted[0] == board.seat_loaded[0]
        league.take([match])
        league.step()
    assert seen == {0, 1, 2}


@pytest.mark.parametrize("damage", ["bytes", "shape", "missing"])
def test_a_member_that_cannot_be_loaded_leaves(league: League, board: Board, tmp_path: Path, damage: str):
    store = weights()
    if damage == "shape":
        train_to(tmp_path, board, 0, 1000, size=5)
        league.step()
        board.saves_done[:] = board.save_requests
        league.step()
    else:
        join(league, board, tmp_path, 1000)
    if damage == "bytes":
        member_path(tmp_path, 0).write_bytes(b"not a checkpoint")
    elif damage == "missing":
        member_path(tmp_path, 0).unlink()
    keeper(tmp_path, board, store).poll(0.0)
    assert board.seat_loaded[0] == failed(0)
    assert store.version == NOT_PUBLISHED
    league.step()
    assert not league.members
    assert events(tmp_path)[-1] == ("damaged", 0)
    keeper(tmp_path, board, store).poll(0.0)
    assert board.seat_loaded[0] == -1


def test_a_resumed_league_is_where_it_was(league: League, cfg: Config, board: Board, tmp_path: Path):
    join(league, board, tmp_path, 1000)
    join(league, board, tmp_path, 1200, policy_id=1)
    league.take([MatchReport((0, member_player(1)), (1.0, 0.0))])
    league.save()
    resumed = League(cfg, Board(SharedArrays(Board.specs(2, 1, 1, 1, 1, num_seats=1))), tmp_path, seed=9)
    assert resumed.members == league.members
    assert resumed.ratings.ratings == league.ratings.ratings
    assert resumed.ratings.matches[member_player(1)] == 1


def test_a_member_starts_with_the_rating_of_the_policy_it_was(league: League, board: Board, tmp_path: Path):
    league.take([MatchReport((0, 1), (1.0, 0.0))])
    join(league, board, tmp_path, 1000)
    assert league.ratings[member_player(0)] == league.ratings[0] == 1208.0


def test_a_policy_that_became_a_copy_has_the_rating_of_the_original(league: League, board: Board):
    league.take([MatchReport((0, 1), (1.0, 0.0))])
    board.load_from[1] = 0
    board.load_requests[1] += 1
    league.step()
    assert league.ratings[1] == 1208.0


def test_hard_opponents_are_drawn_more_often(league: League, cfg: Config, board: Board, tmp_path: Path):
    cfg.league_opponents = "hard"
    for env_steps in (1000, 2000):
        join(league, board, tmp_path, env_steps)
    league.ratings.set(member_player(1), 1600.0)
    drawn = Counter(league._choose() for _ in range(500))
    # Expected scores 1/2 and 10/11 against policies of 1200, squared: three of four are the harder one.
    assert 0.70 < drawn[1] / 500 < 0.83


def make_mapping(fraction: float, num_agents: int = 4, seats: tuple[int, ...] = (7, -1)) -> LeagueMapping:
    guests = Guests(fraction, num_policies=3, seats=np.array(seats))
    return LeagueMapping(guests, num_envs=200, agents_per_env=num_agents, mix=True, seed=1)


def test_guests_play_half_of_the_agents_in_a_fraction_of_the_matches():
    mapping = make_mapping(0.3)
    mapping.episodes_ended(range(800))
    guests = (mapping.actors >= 3).reshape(200, 4).sum(axis=1)
    assert set(guests.tolist()) == {0, 2}
    assert 0.2 < (guests == 2).mean() < 0.4


def test_what_a_guest_does_is_learned_by_nobody():
    mapping = make_mapping(0.5)
    mapping.episodes_ended(range(800))
    is_guest = mapping.actors >= 3
    assert (mapping.actors[is_guest] == 3).all()  # the second seat is empty
    assert (mapping.recorded[is_guest] == -1).all()
    assert (mapping.recorded[~is_guest] == mapping.policies[~is_guest]).all()
    assert mapping.policies.max() < 3


def test_without_members_everybody_learns():
    mapping = make_mapping(1.0, seats=(-1, -3))
    mapping.episodes_ended(range(800))
    assert (mapping.recorded == mapping.policies).all()


def end(agent: int, score: float) -> EpisodeEnd:
    return EpisodeEnd(agent, score, score, 1, {})


def make_book(seats: np.ndarray) -> tuple[LeagueMapping, MatchBook]:
    mapping = LeagueMapping(Guests(1.0, 3, seats), num_envs=1, agents_per_env=2, mix=True, seed=0)
    return mapping, MatchBook(mapping, agents_per_env=2, num_policies=3, seats=seats)


def play(mapping: LeagueMapping, book: MatchBook, *ends: EpisodeEnd) -> None:
    book.note(ends)
    mapping.episodes_ended([e.agent_index for e in ends])
    book.remapped(ends)


def test_a_match_is_told_when_all_its_agents_are_done():
    seats = np.array([5])
    mapping, book = make_book(seats)
    play(mapping, book, end(0, 1.0), end(1, 2.0))
    book.take()
    guest = int(np.argmax(mapping.actors == 3))
    play(mapping, book, end(guest, 4.0))
    assert book.take() == []
    play(mapping, book, end(1 - guest, 3.0))
    (match,) = book.take()
    assert match.players[guest] == member_player(5)
    assert match.scores[guest] == 4.0
    assert match.scores[1 - guest] == 3.0


def test_a_match_in_which_the_guest_was_exchanged_does_not_count():
    seats = np.array([5])
    mapping, book = make_book(seats)
    play(mapping, book, end(0, 1.0), end(1, 2.0))
    book.take()
    seats[0] = 6
    play(mapping, book, end(0, 1.0), end(1, 2.0))
    assert book.take() == []
    play(mapping, book, end(0, 1.0), end(1, 2.0))
    assert member_player(6) in book.take()[0].players


@pytest.fixture
def rock_paper_scissors() -> Iterator[None]:
    with temporary_registrations():
        register_custom_components()
        yield
    close_logging()


def run(train_dir: Path, *flags: str) -> ExitStatus:
    fixed = ("--algo=APPO", "--device=cpu", "--seed=1", "--num_workers=1", "--experiment=league")
    return run_session(parse_args([*fixed, "--progress=plain", f"--train_dir={train_dir}", *flags]))


SERIAL = ("--serial_mode=True", "--league_period_env_steps=2000", "--train_for_env_steps=12000")
# Long enough for a member to be loaded and to play, also where processes take turns on one core.
PARALLEL = ("--serial_mode=False", "--league_period_env_steps=10000", "--train_for_env_steps=100000")


@pytest.mark.usefixtures("rock_paper_scissors")
@pytest.mark.parametrize(
    ("mode", "inference"),
    [
        (SERIAL, "rollout_workers"),
        (SERIAL, "policy_workers"),
        pytest.param(PARALLEL, "rollout_workers", marks=pytest.mark.processes),
        pytest.param(PARALLEL, "policy_workers", marks=(pytest.mark.processes, pytest.mark.long)),
    ],
    ids=["serial", "serial, policy workers", "parallel", "parallel, policy workers"],
)
def test_a_session_plays_against_its_past(tmp_path: Path, mode: tuple[str, ...], inference: str):
    league = ("--league_fraction=0.5", "--league_pool_size=3", *mode)
    flags = (
        f"--inference={inference}",
        "--num_envs_per_worker=16",
        "--batch_size=512",
        "--learning_rate=0.003",
        "--lr_schedule=constant",
        "--decorrelate_experience_max_seconds=0",
    )
    assert run(tmp_path, "--env=weighted_rps", *league, *flags) is ExitStatus.SUCCESS
    state = json.loads((tmp_path / "league" / "league_state.json").read_text())
    assert len(state["members"]) == 3
    played = {player: matches for player, _, matches in state["ratings"]}
    assert played[0] > 100
    assert any(player < 0 and matches > 0 for player, matches in played.items())
    tags = {tag for record in read_metrics(tmp_path / "league" / "metrics.jsonl") for tag in record}
    assert {"elo/rating", "elo/matches", "elo/pool_mean", "elo/pool_best", "elo/pool_size"} <= tags


def test_a_league_needs_somebody_to_play_against(tmp_path: Path):
    network = ("--encoder_type=mlp", "--encoder_subtype=mlp_mujoco")
    with pytest.raises(ConfigError, match="--league_fraction=0"):
        run(tmp_path, "--env=gym_CartPole-v1", "--league_fraction=0.5", "--serial_mode=True", *network)


@pytest.mark.usefixtures("rock_paper_scissors")
def test_a_league_needs_agents_that_change_hands(tmp_path: Path):
    with pytest.raises(ConfigError, match="--async_rl=True"):
        run(tmp_path, "--env=weighted_rps", "--league_fraction=0.5", "--async_rl=False", "--batch_size=256")

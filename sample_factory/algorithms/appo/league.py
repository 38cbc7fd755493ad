"""The league: past policies that come back as opponents, and the Elo ratings of everybody.

The session calls `step` in its loop; `Progress` passes on the reports of matches. Now and then a policy's
newest checkpoint is copied into the pool (`league/` in the experiment); members of the pool are drawn into
seats, where the league keeper loads them. Ratings are kept for any environment in which different policies
meet, also without seats.

Invariant: `league_state.json` names only members whose files are complete, so a session killed at any instant
resumes with a pool that works.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.algorithms.appo.board import Board
from sample_factory.algorithms.appo.elo import Ratings, expected_score
from sample_factory.algorithms.appo.league_keeper import NOBODY, failed, member_path
from sample_factory.algorithms.appo.matches import member_player
from sample_factory.config.config import Config
from sample_factory.config.errors import ConfigError
from sample_factory.config.experiment_files import write_json
from sample_factory.model.durable_files import write_durably
from sample_factory.monitoring.reports import MatchReport

log = logging.getLogger("sample_factory")

STATE_FILE = "league_state.json"
EVENTS_FILE = "league_events.jsonl"
MATCHES_PER_SITTING = 100  # then somebody else takes the seat
SAVE_SEC = 30.0  # ratings change all the time; so much of their history may be lost


@dataclass(frozen=True)
class Member:
    """A past policy in the pool."""

    number: int
    policy: int
    policy_version: int
    env_steps: int


def check_league(cfg: Config, num_agents: int) -> None:
    """Raises `ConfigError` when a league is asked for where nobody plays against anybody."""
    if cfg.league_fraction > 0 and num_agents < 2:
        raise ConfigError(
            f"--league_fraction={cfg.league_fraction} needs an environment with several agents, and "
            f"--env={cfg.env} has one; use --league_fraction=0."
        )


def least_missed(members: Sequence[Member]) -> Member:
    """Who leaves a full pool: the one whose neighbours in age are closest, so that all ages stay."""
    by_age = sorted(members, key=lambda member: (member.env_steps, member.number))
    gaps = [after.env_steps - before.env_steps for before, after in zip(by_age, by_age[2:], strict=False)]
    return by_age[1 + int(np.argmin(gaps))] if gaps else by_age[0]


class League:
    """The pool, the seats and the ratings."""

    def __init__(self, cfg: Config, board: Board, directory: Path, seed: int):
        self._cfg = cfg
        self._board = board
        self._directory = directory
        self._rng = np.random.default_rng(seed)
        self.ratings = Ratings()
        self.members: dict[int, Member] = {}
        self._next_number = 0
        self._last_joined = [0] * cfg.num_policies
        self._awaiting_save: dict[int, int] = {}  # policy -> number of the save that is to join
        self._num_seats = cfg.league_seats if cfg.league_fraction > 0 else 0
        self._sitting = [0] * self._num_seats  # matches since the member took its seat
        self._loads_seen = board.load_requests.copy()
        self._next_save = time.monotonic() + SAVE_SEC
        self._resume()

    def _resume(self) -> None:
        path = self._directory / STATE_FILE
        if not path.exists():
            return
        state = json.loads(path.read_text())
        self._next_number = state["next_number"]
        self._rng.bit_generator.state = state["rng"]
        joined = state["last_joined"][: self._cfg.num_policies]
        self._last_joined[: len(joined)] = joined
        for values in state["members"]:
            member = Member(**values)
            if member_path(self._directory, member.number).exists():
                self.members[member.number] = member
        for player, rating, matches in state["ratings"]:
            self.ratings.set(player, rating)
            self.ratings.matches[player] = matches

    def save(self) -> None:
        """Writes the state; the session calls it once more when it ends."""
        ratings = self.ratings
        state = {
            "next_number": self._next_number,
            "last_joined": self._last_joined,
            "members": [asdict(member) for member in self.members.values()],
            "ratings": [[p, rating, ratings.matches.get(p, 0)] for p, rating in ratings.ratings.items()],
            "rng": self._rng.bit_generator.state,
        }
        write_json(self._directory / STATE_FILE, state)
        self._next_save = time.monotonic() + SAVE_SEC

    def take(self, reports: Sequence[Any]) -> None:
        """Rates the players of finished matches; other reports are not for the league."""
        seated = {member_player(int(number)): seat for seat, number in self._seats()}
        for match in reports:
            if isinstance(match, MatchReport):
                self.ratings.match(match.players, match.scores)
                for player in set(match.players) & seated.keys():
                    self._sitting[seated[player]] += 1

    def _seats(self) -> list[tuple[int, int]]:
        return list(enumerate(self._board.seat_loaded[: self._num_seats].tolist()))

    def step(self) -> None:
        """Takes checkpoints that are due into the pool, and gives seats to other members."""
        self._follow_population()
        if self._num_seats:
            self._collect_checkpoints()
            self._give_seats()
        if time.monotonic() >= self._next_save:
            self.save()

    def _follow_population(self) -> None:
        """A policy that has become a copy of another is as good as that one."""
        for policy_id in np.flatnonzero(self._board.load_requests != self._loads_seen).tolist():
            self._loads_seen[policy_id] = self._board.load_requests[policy_id]
            self.ratings.set(policy_id, self.ratings[int(self._board.load_from[policy_id])])

    def _collect_checkpoints(self) -> None:
        for policy_id in range(self._cfg.num_policies):
            if policy_id in self._awaiting_save:
                if self._board.saves_done[policy_id] >= self._awaiting_save[policy_id]:
                    del self._awaiting_save[policy_id]
                    self._join(policy_id)
                continue
            frames = int(self._board.env_steps[policy_id])
            if frames - self._last_joined[policy_id] >= self._cfg.league_period_env_steps:
                self._last_joined[policy_id] = frames
                self._board.save_requests[policy_id] += 1
                self._awaiting_save[policy_id] = int(self._board.save_requests[policy_id])

    def _join(self, policy_id: int) -> None:
        """Copies a policy's newest checkpoint into the pool."""
        files = sorted((self._directory / f"checkpoint_p{policy_id}").glob("checkpoint_*.pth"))
        if not files:
            return
        _, version, env_steps = files[-1].stem.split("_")
        member = Member(self._next_number, policy_id, int(version), int(env_steps))
        path = member_path(self._directory, member.number)
        try:
            path.parent.mkdir(exist_ok=True)
            write_durably(path, files[-1].read_bytes())
        except OSError as error:
            log.warning(
                "Policy %d could not join the league (%s); it tries again after its next "
                "--league_period_env_steps=%d frames.",
                policy_id,
                error.strerror or error,
                self._cfg.league_period_env_steps,
            )
            return
        self._next_number += 1
        self.members[member.number] = member
        self.ratings.set(member_player(member.number), self.ratings[policy_id])
        self._record("joined", member)
        if len(self.members) > self._cfg.league_pool_size:
            self._remove(least_missed(list(self.members.values())), "left")
        self.save()

    def _remove(self, member: Member, why: str) -> None:
        del self.members[member.number]
        self._record(why, member)
        self.ratings.forget(member_player(member.number))
        self.save()  # first: what the state names must exist
        member_path(self._directory, member.number).unlink(missing_ok=True)

    def _give_seats(self) -> None:
        board = self._board
        for seat, loaded in self._seats():
            wanted = int(board.seat_wanted[seat])
            if wanted != NOBODY and loaded == failed(wanted):
                if wanted in self.members:
                    self._remove(self.members[wanted], "damaged")
            elif wanted != loaded or (wanted != NOBODY and self._sitting[seat] < MATCHES_PER_SITTING):
                continue  # is being loaded, or plays on
            number = self._choose()
            self._sitting[seat] = 0
            if number != wanted:
                board.seat_wanted[seat] = number
                if number != NOBODY:
                    self._record("seated", self.members[number], seat=seat)

    def _choose(self) -> int:
        """A member for a seat: any, or with `--league_opponents=hard` preferably one that wins."""
        numbers = list(self.members)
        if not numbers:
            return NOBODY
        if self._cfg.league_opponents == "uniform":
            return int(self._rng.choice(numbers))
        mean = float(np.mean([self.ratings[p] for p in range(self._cfg.num_policies)]))
        weights = np.array([expected_score(self.ratings[member_player(n)], mean) ** 2 for n in numbers])
        return int(self._rng.choice(numbers, p=weights / weights.sum()))

    def _record(self, what: str, member: Member, seat: int | None = None) -> None:
        """Appends to the event log."""
        event = {"time": round(time.time(), 3), "event": what, "member": member.number, "seat": seat}
        event |= {name: value for name, value in asdict(member).items() if name != "number"}
        event["elo"] = round(self.ratings[member_player(member.number)], 1)
        with (self._directory / EVENTS_FILE).open("a") as file:
            file.write(json.dumps(event) + "\n")

    def scalars(self, policy_id: int) -> dict[str, float]:
        """Summaries of one policy: its rating, the matches behind it, and the pool's ratings."""
        if not self.ratings.matches.get(policy_id):
            return {}
        scalars = {
            "elo/rating": self.ratings[policy_id],
            "elo/matches": float(self.ratings.matches[policy_id]),
        }
        pool = [self.ratings[member_player(number)] for number in self.members]
        if pool:
            scalars |= {"elo/pool_mean": float(np.mean(pool)), "elo/pool_best": max(pool)}
            scalars["elo/pool_size"] = float(len(pool))
        return scalars

"""Population-based training: weak policies become copies of strong ones, and all but the best keep changing.

The session calls `step` in its loop. Decisions reach learners and rollout workers through files beside the
checkpoints (`policy_00_cfg.json`, `policy_00_reward_shaping.json`) and numbers on the board that say when to
look; so a worker that was replaced, and a session that resumes, find the population as it is.

Invariant: a decision happens in the instant in which `pbt_state.json` is replaced. The event log is written
before and cut back on resume; the other files follow and are written again on resume; and a policy that was
to take over weights when the session died takes them over in the next one.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.algorithms.appo.board import Board
from sample_factory.algorithms.appo.mutation import MutationRules, mutate, tuned_hyper_parameters
from sample_factory.config.config import Config
from sample_factory.config.experiment_files import write_json

log = logging.getLogger("sample_factory")

STATE_FILE = "pbt_state.json"
EVENTS_FILE = "pbt_events.jsonl"
SHAPING_CATEGORIES = {"doom_": ("delta", "selected_weapon")}


def hyper_parameters_path(directory: Path, policy_id: int) -> Path:
    """Where one policy's hyper-parameters are."""
    return directory / f"policy_{policy_id:02d}_cfg.json"


def reward_shaping_path(directory: Path, policy_id: int) -> Path:
    """Where one policy's reward shaping is."""
    return directory / f"policy_{policy_id:02d}_reward_shaping.json"


@dataclass(frozen=True)
class Ranking:
    """Policies from best to worst by their objective."""

    objectives: Sequence[float]
    order: list[int]

    @classmethod
    def of(cls, objectives: Sequence[float], among: Sequence[int] | None = None) -> Ranking:
        """Ranks all policies, or only those that compete with each other; ties go to the higher index."""
        competing = range(len(objectives)) if among is None else among
        return cls(objectives, sorted(competing, key=lambda p: (objectives[p], p), reverse=True))

    def best(self, count: int) -> list[int]:
        """The `count` best policies."""
        return self.order[:count]

    def worst(self, count: int) -> list[int]:
        """The `count` worst policies."""
        return self.order[len(self.order) - count :]


def is_worth_replacing(own: float, candidate: float, gap_absolute: float, gap_relative: float) -> bool:
    """Whether the candidate is better by both gaps; the relative one counts on the larger magnitude."""
    gain = candidate - own
    scale = max(abs(own), abs(candidate))
    return gain > gap_absolute and gain > gap_relative * scale


@dataclass
class TakeOver:
    """A policy on its way to the weights of a better one."""

    donor: int
    save_number: int  # of the donor's save that brings them to disk
    load_number: int | None = None  # of the request to load them; None: they are not on disk yet


class Population:
    """The policies' hyper-parameters and the rules of their evolution."""

    def __init__(
        self,
        cfg: Config,
        board: Board,
        directory: Path,
        shaping: dict[str, Any] | None,
        seed: int,
        num_roles: int = 1,
    ):
        """Policies compete with those of their own role: policy p has role `p % num_roles`."""
        self._cfg = cfg
        self._num_roles = num_roles
        self._board = board
        self._directory = directory
        self._rules = MutationRules.of(cfg)
        self._defaults = tuned_hyper_parameters(cfg)
        self._default_shaping = shaping
        self._rng = np.random.default_rng(seed)
        self._last_update = [0] * cfg.num_policies
        self._take_overs: dict[int, TakeOver] = {}  # by the policy that takes over
        self._members: list[dict[str, Any]] = []
        self._shapings: list[dict[str, Any] | None] = []
        self._events_bytes = 0
        state_path = directory / STATE_FILE
        if state_path.exists():
            self._resume(json.loads(state_path.read_text()))
        self._create()
        for policy_id in range(cfg.num_policies):
            self._announce(policy_id)

    def _is_reference(self, policy_id: int) -> bool:
        """The first policy of a role is never mutated, so that there is always something to compare with."""
        return policy_id < self._num_roles

    def _create(self) -> None:
        """Policies start as their files say, if there are any; others near the settings of the session."""
        for policy_id in range(len(self._members), self._cfg.num_policies):
            found = _read_json(hyper_parameters_path(self._directory, policy_id))
            self._members.append({**self._defaults, **(found or {})})
            shaping = _read_json(reward_shaping_path(self._directory, policy_id))
            self._shapings.append(shaping or self._default_shaping)
            if found is None and not self._is_reference(policy_id):
                self._mutate(policy_id)
        self._save_state()

    def _resume(self, state: dict[str, Any]) -> None:
        count = self._cfg.num_policies  # may be another one than before
        self._last_update[: len(state["last_update"])] = state["last_update"][:count]
        self._rng.bit_generator.state = state["rng"]
        self._members = [{**self._defaults, **member} for member in state["members"][:count]]
        self._shapings = state["reward_shapings"][:count]
        self._events_bytes = state["events_bytes"]
        events = self._directory / EVENTS_FILE
        if events.exists() and events.stat().st_size > self._events_bytes:
            os.truncate(events, self._events_bytes)  # of a decision that was never made
        for policy_id, donor in state["take_overs"].items():
            if max(int(policy_id), donor) < count:
                self._take_overs[int(policy_id)] = self._ask_to_save(donor)

    def _mutate(self, policy_id: int) -> None:
        self._members[policy_id] = mutate(self._members[policy_id], self._defaults, self._rules, self._rng)
        shaping = self._shapings[policy_id]
        if shaping is not None and self._default_shaping is not None:
            tunable = self._tunable_shaping(shaping)
            changed = mutate(tunable, self._default_shaping, self._rules, self._rng)
            self._shapings[policy_id] = {**shaping, **changed}

    def _tunable_shaping(self, shaping: Mapping[str, Any]) -> dict[str, Any]:
        for prefix, categories in SHAPING_CATEGORIES.items():
            if self._cfg.env.startswith(prefix):
                return {name: value for name, value in shaping.items() if name in categories}
        return dict(shaping)

    def _announce(self, policy_id: int) -> None:
        """Writes a policy's files, then tells everybody to look at them."""
        write_json(hyper_parameters_path(self._directory, policy_id), self._members[policy_id])
        self._board.cfg_number[policy_id] += 1
        if self._shapings[policy_id] is not None:
            write_json(reward_shaping_path(self._directory, policy_id), self._shapings[policy_id])
            self._board.shaping_number[policy_id] += 1

    def _save_state(self) -> None:
        state = {
            "last_update": self._last_update,
            "members": self._members,
            "reward_shapings": self._shapings,
            "take_overs": {policy_id: take_over.donor for policy_id, take_over in self._take_overs.items()},
            "events_bytes": self._events_bytes,
            "rng": self._rng.bit_generator.state,
        }
        write_json(self._directory / STATE_FILE, state)

    def step(self, objectives: Sequence[float | None]) -> None:
        """Updates every policy that is due, and passes on weights that donors have saved meanwhile."""
        self._continue_take_overs()
        for policy_id in range(self._cfg.num_policies):
            frames = int(self._board.env_steps[policy_id])
            due = frames - self._last_update[policy_id] > self._cfg.pbt_period_env_steps
            if frames < self._cfg.pbt_start_mutation or not due:
                continue
            known = [objective for objective in objectives if objective is not None]
            if len(known) < self._cfg.num_policies or policy_id in self._take_overs:
                continue
            self._last_update[policy_id] = frames
            peers = range(policy_id % self._num_roles, self._cfg.num_policies, self._num_roles)
            self._update(policy_id, Ranking.of(known, peers))

    def _update(self, policy_id: int, ranking: Ranking) -> None:
        count = math.ceil(self._cfg.pbt_replace_fraction * len(ranking.order))
        best = ranking.best(count)
        if policy_id in best:
            self._decide("kept", policy_id, ranking)
            return
        if policy_id in ranking.worst(count):
            donor = int(self._rng.choice(best))
            if is_worth_replacing(
                ranking.objectives[policy_id],
                ranking.objectives[donor],
                self._cfg.pbt_replace_reward_gap_absolute,
                self._cfg.pbt_replace_reward_gap,
            ):
                self._replace(policy_id, donor, ranking)
                return
        if self._is_reference(policy_id):
            self._decide("kept", policy_id, ranking)
            return
        self._mutate(policy_id)
        self._decide("mutated", policy_id, ranking)
        self._announce(policy_id)

    def _replace(self, policy_id: int, donor: int, ranking: Ranking) -> None:
        """Takes over a better policy: its hyper-parameters as soon as its weights are there."""
        self._members[policy_id] = dict(self._members[donor])
        self._shapings[policy_id] = self._shapings[donor]
        if not self._is_reference(policy_id):
            self._mutate(policy_id)
        self._take_overs[policy_id] = self._ask_to_save(donor)
        self._decide("replaced", policy_id, ranking, donor)

    def _ask_to_save(self, donor: int) -> TakeOver:
        self._board.save_requests[donor] += 1
        return TakeOver(donor, int(self._board.save_requests[donor]))

    def _continue_take_overs(self) -> None:
        for policy_id, take_over in list(self._take_overs.items()):
            if take_over.load_number is not None:
                if self._board.loads_done[policy_id] >= take_over.load_number:
                    del self._take_overs[policy_id]
                    self._save_state()
            elif self._board.saves_done[take_over.donor] >= take_over.save_number:
                self._board.load_from[policy_id] = take_over.donor
                self._board.load_requests[policy_id] += 1
                take_over.load_number = int(self._board.load_requests[policy_id])
                self._announce(policy_id)

    def _decide(self, what: str, policy_id: int, ranking: Ranking, donor: int | None = None) -> None:
        """Makes a decision: into the event log, then, for good, into the state."""
        self._record(what, policy_id, ranking, donor)
        self._save_state()

    def _record(self, what: str, policy_id: int, ranking: Ranking, donor: int | None = None) -> None:
        """Appends a decision to the event log and says it in the session's log."""
        event = {
            "time": round(time.time(), 3),
            "policy": policy_id,
            "event": what,
            "donor": donor,
            "env_steps": int(self._board.env_steps[policy_id]),
            "objectives": list(ranking.objectives),
            "hyper_parameters": self._members[policy_id],
        }
        with (self._directory / EVENTS_FILE).open("a") as file:
            file.write(json.dumps(event) + "\n")
            file.flush()
            self._events_bytes = os.fstat(file.fileno()).st_size
        log.info(
            "Population: policy %d is %s%s; objectives %s.",
            policy_id,
            what,
            f" by policy {donor}" if donor is not None else "",
            [round(objective, 3) for objective in ranking.objectives],
        )

    def scalars(self, policy_id: int) -> dict[str, float]:
        """Summaries of one policy's hyper-parameters and reward shaping."""
        scalars = {f"zz_pbt/cfg_{name}": float(value) for name, value in self._members[policy_id].items()}
        shaping = self._shapings[policy_id]
        if shaping is not None:
            scalars |= {
                f"zz_pbt/rew_{name}": value for name, value in _flat(self._tunable_shaping(shaping)).items()
            }
        return scalars


def _read_json(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text()) if path.exists() else None


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    flat: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}_")
        elif isinstance(value, list | tuple):
            flat |= {f"{prefix}{name}_{i}": float(item) for i, item in enumerate(value)}
        elif isinstance(value, bool | int | float):
            flat[f"{prefix}{name}"] = float(value)
    return flat

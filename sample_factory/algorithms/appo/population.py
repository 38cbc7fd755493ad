"""Population-based training: weak policies become copies of strong ones, and all but the best keep changing.

The session calls `step` in its loop. Decisions reach learners and rollout workers through files beside the
checkpoints (`policy_00_cfg.json`, `policy_00_reward_shaping.json`) and numbers on the board that say when to
look; so a worker that was replaced, and a session that resumes, find the population as it is.

Invariant: files are written before the number that announces them, and the state on disk is always complete.
"""

from __future__ import annotations

import json
import logging
import math
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
REFERENCE_POLICY = 0  # never mutated, so that there is always something to compare with
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
    def of(cls, objectives: Sequence[float]) -> Ranking:
        """Ties go to the higher index."""
        order = sorted(range(len(objectives)), key=lambda p: (objectives[p], p), reverse=True)
        return cls(objectives, order)

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


class Population:
    """The policies' hyper-parameters and the rules of their evolution."""

    def __init__(self, cfg: Config, board: Board, directory: Path, shaping: dict[str, Any] | None, seed: int):
        self._cfg = cfg
        self._board = board
        self._directory = directory
        self._rules = MutationRules.of(cfg)
        self._defaults = tuned_hyper_parameters(cfg)
        self._default_shaping = shaping
        self._rng = np.random.default_rng(seed)
        self._last_update = [0] * cfg.num_policies
        self._awaiting_save: dict[int, tuple[int, int]] = {}  # recipient -> (donor, number of the save)
        self._members: list[dict[str, Any]] = []
        self._shapings: list[dict[str, Any] | None] = []
        self._load_or_create()

    def _load_or_create(self) -> None:
        state_path = self._directory / STATE_FILE
        resumed = state_path.exists()
        if resumed:
            state = json.loads(state_path.read_text())
            self._last_update = state["last_update"]
            self._rng.bit_generator.state = state["rng"]
        for policy_id in range(self._cfg.num_policies):
            self._members.append(self._read(hyper_parameters_path, policy_id) or dict(self._defaults))
            self._shapings.append(self._read(reward_shaping_path, policy_id) or self._default_shaping)
            if not resumed and policy_id != REFERENCE_POLICY:
                self._mutate(policy_id)
            self._announce(policy_id)
        self._save_state()

    def _read(self, path_of: Any, policy_id: int) -> dict[str, Any] | None:
        path: Path = path_of(self._directory, policy_id)
        return json.loads(path.read_text()) if path.exists() else None

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
        state = {"last_update": self._last_update, "rng": self._rng.bit_generator.state}
        write_json(self._directory / STATE_FILE, state)

    def step(self, objectives: Sequence[float | None]) -> None:
        """Updates every policy that is due, and passes on weights that donors have saved meanwhile."""
        self._hand_over_saved_weights()
        for policy_id in range(self._cfg.num_policies):
            frames = int(self._board.env_steps[policy_id])
            due = frames - self._last_update[policy_id] > self._cfg.pbt_period_env_steps
            if frames < self._cfg.pbt_start_mutation or not due:
                continue
            known = [objective for objective in objectives if objective is not None]
            if len(known) < self._cfg.num_policies or policy_id in self._awaiting_save:
                continue
            self._update(policy_id, Ranking.of(known))
            self._last_update[policy_id] = frames
            self._save_state()

    def _update(self, policy_id: int, ranking: Ranking) -> None:
        count = math.ceil(self._cfg.pbt_replace_fraction * self._cfg.num_policies)
        best = ranking.best(count)
        if policy_id in best:
            self._record("kept", policy_id, ranking)
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
        if policy_id != REFERENCE_POLICY:
            self._mutate(policy_id)
            self._announce(policy_id)
        self._record("mutated" if policy_id != REFERENCE_POLICY else "kept", policy_id, ranking)

    def _replace(self, policy_id: int, donor: int, ranking: Ranking) -> None:
        """Takes over a better policy: its hyper-parameters now, its weights as soon as they are saved."""
        self._members[policy_id] = dict(self._members[donor])
        self._shapings[policy_id] = self._shapings[donor]
        if policy_id != REFERENCE_POLICY:
            self._mutate(policy_id)
        self._board.save_requests[donor] += 1
        self._awaiting_save[policy_id] = donor, int(self._board.save_requests[donor])
        self._record("replaced", policy_id, ranking, donor)

    def _hand_over_saved_weights(self) -> None:
        for policy_id, (donor, number) in list(self._awaiting_save.items()):
            if self._board.saves_done[donor] >= number:
                del self._awaiting_save[policy_id]
                self._board.load_from[policy_id] = donor
                self._board.load_requests[policy_id] += 1
                self._announce(policy_id)

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

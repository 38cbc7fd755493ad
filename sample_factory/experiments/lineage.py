"""The history of a population: who copied whom, when, how good everybody was, and what was tuned.

Read from pbt_events.jsonl, the summaries of tuned settings, and the settings saved beside the checkpoints.
`sf plot pbt` draws it, the dashboard shows it.

Invariant: events are in the order of time, and what a damaged line says is left out, never guessed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sample_factory.experiments.errors import NOTHING_FOUND, ExperimentsError
from sample_factory.monitoring.metrics import METRICS_FILE_NAME, read_metrics

EVENTS_FILE = "pbt_events.jsonl"
_INITIAL = "zz_pbt/cfg_"


@dataclass(frozen=True)
class PopulationEvent:
    """One decision about one policy.

    Attributes:
        time: unix time.
        kind: "kept", "mutated" or "replaced".
        donor: the policy that was copied, if one was.
        env_steps: frames of the policy at that time.
        objectives: of every policy at that time.
        tuned: its hyper-parameters after the decision.
    """

    time: float
    policy: int
    kind: str
    donor: int | None
    env_steps: int
    objectives: tuple[float, ...]
    tuned: Mapping[str, float]


@dataclass(frozen=True)
class Lineage:
    """A population over time.

    Attributes:
        initial: each policy's hyper-parameters before the first decision, as far as they were written.
        current: the same now.
    """

    num_policies: int
    start: float
    events: tuple[PopulationEvent, ...]
    initial: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    current: Mapping[int, Mapping[str, float]] = field(default_factory=dict)

    @property
    def copies(self) -> list[PopulationEvent]:
        """The decisions that replaced a policy by a copy of another."""
        return [event for event in self.events if event.donor is not None]

    def tuned_names(self) -> list[str]:
        """The hyper-parameters that ever differed between policies or times, sorted."""
        values: dict[str, set[float]] = {}
        for tuned in [*self.initial.values(), *(event.tuned for event in self.events)]:
            for name, value in tuned.items():
                values.setdefault(name, set()).add(value)
        return sorted(name for name, seen in values.items() if len(seen) > 1)

    def history(self, name: str, policy: int) -> list[tuple[float, float]]:
        """(unix time, value) of one hyper-parameter of one policy, at every moment it may have changed."""
        points = []
        if name in self.initial.get(policy, {}):
            points.append((self.start, self.initial[policy][name]))
        own = (event for event in self.events if event.policy == policy)
        return points + [(event.time, event.tuned[name]) for event in own if name in event.tuned]

    def objective_history(self, policy: int) -> list[tuple[float, float]]:
        """(unix time, objective) of one policy, at every decision about any."""
        return [
            (event.time, event.objectives[policy])
            for event in self.events
            if policy < len(event.objectives) and math.isfinite(event.objectives[policy])
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "num_policies": self.num_policies,
            "start": self.start,
            "events": [
                {
                    "time": event.time,
                    "policy": event.policy,
                    "event": event.kind,
                    "donor": event.donor,
                    "env_steps": event.env_steps,
                    "objectives": list(event.objectives),
                    "tuned": dict(event.tuned),
                }
                for event in self.events
            ],
            "tuned": {
                name: [self.history(name, policy) for policy in range(self.num_policies)]
                for name in self.tuned_names()
            },
            "current": {str(policy): dict(tuned) for policy, tuned in self.current.items()},
        }


def has_lineage(directory: Path) -> bool:
    """Whether an experiment trained a population that has decided something."""
    return (directory / EVENTS_FILE).is_file()


def read_lineage(directory: Path) -> Lineage:
    """The population of an experiment.

    Raises:
        ExperimentsError: the experiment trained none, or it has not decided anything yet.
    """
    events = sorted(_read_events(directory / EVENTS_FILE), key=lambda event: event.time)
    if not events:
        raise ExperimentsError(
            f"{directory} has no decisions of a population; train with --with_pbt=True --num_policies=4, and "
            "past --pbt_start_mutation frames.",
            NOTHING_FOUND,
        )
    start, initial = _beginning(directory)
    current = {}
    for path in sorted(directory.glob("policy_*_cfg.json")):
        number = path.name.split("_")[1]
        if number.isdigit():
            current[int(number)] = _numbers(_read_object(path))
    most = max(max(event.policy for event in events), max(len(event.objectives) for event in events) - 1)
    return Lineage(most + 1, min(start, events[0].time), tuple(events), initial, current)


def _read_events(path: Path) -> list[PopulationEvent]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(_event(json.loads(line)))
        except (ValueError, KeyError, TypeError):
            continue  # torn by a crash
    return found


def _event(record: Mapping[str, Any]) -> PopulationEvent:
    donor = record.get("donor")
    return PopulationEvent(
        time=float(record["time"]),
        policy=int(record["policy"]),
        kind=str(record["event"]),
        donor=None if donor is None else int(donor),
        env_steps=int(record.get("env_steps") or 0),
        objectives=tuple(
            math.nan if objective is None else float(objective)
            for objective in record.get("objectives") or ()
        ),
        tuned=_numbers(record.get("hyper_parameters")),
    )


def _beginning(directory: Path) -> tuple[float, dict[int, dict[str, float]]]:
    """When training began, and each policy's first hyper-parameters, from the summaries."""
    records = read_metrics(directory / METRICS_FILE_NAME)
    initial: dict[int, dict[str, float]] = {}
    for record in records:
        tuned = {name[len(_INITIAL) :]: value for name, value in record.items() if name.startswith(_INITIAL)}
        if tuned:
            initial.setdefault(int(record["policy"]), _numbers(tuned))
    times = [float(record["time"]) for record in records if "time" in record]
    return min(times, default=math.inf), initial


def _numbers(values: Any) -> dict[str, float]:
    if not isinstance(values, Mapping):
        return {}
    return {
        str(name): float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _read_object(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None

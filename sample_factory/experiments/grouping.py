"""Which experiments are seeds of the same configuration, and how the groups are called.

`sf plot` draws one line per group. Two experiments belong together when every setting that changes what is
learned is equal; where they are, how long they run and what they report does not count.

Invariant: every experiment is in exactly one group, and no two groups of an environment have the same label.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sample_factory.config.settings_evaluation import SETTINGS as EVALUATION
from sample_factory.config.settings_experiment import IDENTITY, LOCATION
from sample_factory.config.table import settings_for
from sample_factory.experiments.reading import Experiment

NO_GROUPS = "none"
_BOOKKEEPING = (
    "cli_args",
    "command_line",
    "environment",
    "git_hash",
    "git_repo_name",
    "wandb_unique_id",
    "seed",
    "train_for_env_steps",
    "train_for_seconds",
    "execution_time",
    "restart_behavior",
    "default_niceness",
)
_UNIMPORTANT_GROUPS = ("monitoring", "checkpoints", "supervision")
_MOST_SETTINGS = 3


@dataclass(frozen=True)
class SeedGroup:
    """Experiments of the same configuration."""

    env: str
    label: str
    members: tuple[Experiment, ...]


def group_seeds(experiments: Sequence[Experiment], group_by: Sequence[str] = ()) -> list[SeedGroup]:
    """Puts seeds of the same configuration together.

    Args:
        experiments: at least one.
        group_by: the settings that tell groups apart; none given means all that differ and matter, and
            `["none"]` leaves every experiment alone.
    """
    if list(group_by) == [NO_GROUPS]:
        return [SeedGroup(e.run.env, e.name, (e,)) for e in experiments]
    names = list(group_by) or varying_settings([experiment.run.config for experiment in experiments])
    groups: dict[tuple[str, str], list[Experiment]] = {}
    for experiment in experiments:
        values = {name: experiment.run.config.get(name) for name in names}
        key = json.dumps([experiment.run.algo, values], default=str)
        groups.setdefault((experiment.run.env, key), []).append(experiment)
    several_algos = len({experiment.run.algo for experiment in experiments}) > 1
    found = [
        SeedGroup(env, _label(members, names, several_algos), tuple(members))
        for (env, _), members in groups.items()
    ]
    return _told_apart(found)


def varying_settings(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that matter, that all configurations have, and that are not the same in all."""
    shared = set(configs[0]).intersection(*configs[1:]) - _unimportant()
    return sorted(
        name for name in shared if len({json.dumps(config[name], default=str) for config in configs}) > 1
    )


def _unimportant() -> set[str]:
    quiet = {s.name for s in settings_for("APPO") if s.group in _UNIMPORTANT_GROUPS}
    return quiet | {s.name for s in (*IDENTITY, *LOCATION, *EVALUATION)} | set(_BOOKKEEPING)


def _label(members: Sequence[Experiment], names: Sequence[str], several_algos: bool) -> str:
    first = members[0]
    parts = [first.run.algo] if several_algos or not names else []
    parts += [f"{name}={first.run.config.get(name)}" for name in names[:_MOST_SETTINGS]]
    if len(names) > _MOST_SETTINGS:
        parts.append("…")
    return ", ".join(parts)


def _told_apart(groups: list[SeedGroup]) -> list[SeedGroup]:
    """Adds an experiment's name to labels that would otherwise be the same in one panel."""
    seen: dict[tuple[str, str], int] = {}
    for group in groups:
        seen[group.env, group.label] = seen.get((group.env, group.label), 0) + 1
    return [
        group
        if seen[group.env, group.label] == 1
        else SeedGroup(group.env, f"{group.label} ({group.members[0].name})", group.members)
        for group in groups
    ]

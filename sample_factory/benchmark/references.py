"""Normalisation: which score of an environment counts as 0 and which as 1.

`summary`, `compare` and the plots ask `reference_table`. The table is written into every output, because a
normalised score means nothing without it.

Invariant: an environment without both ends, or with equal ones, is an error that names it, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.benchmark.atari_scores import ATARI_SCORES
from sample_factory.benchmark.errors import BenchmarkError
from sample_factory.benchmark.run_record import read_json_object
from sample_factory.benchmark.runs import Run

NORMALIZATIONS = ("auto", "none", "random_expert", "minmax", "human", "table")
BASELINES_FILE = "baselines.json"  # beside the runs of a suite; found without being named
_DMLAB_PREFIX = "dmlab_"


@dataclass(frozen=True)
class Reference:
    """The scores that count as 0 and 1, and where they come from."""

    low: float
    high: float
    source: str

    def normalize(self, scores: np.ndarray) -> np.ndarray:
        """Scores on the scale of this reference."""
        return (scores - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class ReferenceTable:
    """One reference per environment; `kind` is the normalisation that was chosen."""

    kind: str
    references: Mapping[str, Reference]

    @property
    def is_normalized(self) -> bool:
        """Whether scores are normalised at all."""
        return self.kind != "none"

    def to_json(self) -> dict[str, Any]:
        """For the outputs."""
        return {
            "kind": self.kind,
            "references": {env: asdict(reference) for env, reference in sorted(self.references.items())},
        }


NOT_NORMALIZED = ReferenceTable("none", {})


def reference_table(
    kind: str, runs: Sequence[Run], baselines: Mapping[str, Mapping[str, float]]
) -> ReferenceTable:
    """The references of all environments in some runs.

    Args:
        kind: one of `NORMALIZATIONS`; "auto" takes the first of table, human, random_expert that knows all
            environments, else none.
        runs: with scores.
        baselines: `{env: {"random": x, "expert": y}}`, see `read_baselines`.

    Raises:
        BenchmarkError: an environment has no reference of that kind.
    """
    if kind == "auto":
        return _automatic(runs, baselines)
    if kind == "none":
        return NOT_NORMALIZED
    envs = sorted({run.env for run in runs})
    return ReferenceTable(kind, {env: _reference(kind, env, runs, baselines) for env in envs})


def read_baselines(path: Path | None) -> dict[str, dict[str, float]]:
    """The user's table, a JSON file `{env: {"random": x, "expert": y}}`.

    Raises:
        BenchmarkError: the file does not hold such a table.
    """
    if path is None:
        return {}
    content = read_json_object(path)
    if content is None:
        raise BenchmarkError(
            f'--baselines={path} must be a JSON file {{"env": {{"random": 0, "expert": 1}}}}.'
        )
    try:
        return {
            env: {name: float(value) for name, value in ends.items() if name in ("random", "expert")}
            for env, ends in content.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise BenchmarkError(
            f'--baselines={path} must map environments to {{"random": 0, "expert": 1}} ({error}).'
        ) from error


def human_scores(env: str) -> tuple[float, float] | None:
    """Scores of a random policy and of a human in an Atari game or a DMLab-30 level; None elsewhere."""
    if env.startswith(_DMLAB_PREFIX):
        from sample_factory.envs.dmlab.levels import DMLAB30

        path = env.removeprefix(_DMLAB_PREFIX)
        level = next((level for level in DMLAB30 if path in (level.path, level.name)), None)
        return (level.random_score, level.human_score) if level is not None else None
    name = re.sub(r"(NoFrameskip|Deterministic)?-v\d+$", "", env.removeprefix("atari_").removeprefix("ALE/"))
    flat = {game.replace("_", ""): scores for game, scores in ATARI_SCORES.items()}
    return flat.get(name.replace("_", "").lower())


def _automatic(runs: Sequence[Run], baselines: Mapping[str, Mapping[str, float]]) -> ReferenceTable:
    for kind in ("table", "human", "random_expert"):
        try:
            return reference_table(kind, runs, baselines)
        except BenchmarkError:
            continue
    return NOT_NORMALIZED


def _reference(
    kind: str, env: str, runs: Iterable[Run], baselines: Mapping[str, Mapping[str, float]]
) -> Reference:
    of_env = [run for run in runs if run.env == env]
    low: float | None
    high: float | None
    if kind == "minmax":
        scores = [run.score for run in of_env if run.score is not None]
        low, high = min(scores), max(scores)
    elif kind == "human":
        low, high = human_scores(env) or (None, None)
    else:
        given = baselines.get(env, {})
        low, high = given.get("random"), given.get("expert")
        if kind == "random_expert":
            low = low if low is not None else _mean(run.random_score for run in of_env)
            high = high if high is not None else _mean(run.expert_score for run in of_env)
    if low is None or high is None:
        raise BenchmarkError(_missing(kind, env, low))
    if low == high:
        raise BenchmarkError(
            f"{env} can't be normalised: its references are both {low:g}; pass --normalize=none."
        )
    return Reference(low, high, kind)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _missing(kind: str, env: str, low: float | None) -> str:
    if kind == "human":
        return f"--normalize=human knows no human score of {env}; pass --normalize=minmax."
    end = "random" if low is None else "expert"
    return (
        f"--normalize={kind} needs the {end} score of {env}; pass --baselines=FILE with "
        f'{{"{env}": {{"random": 0, "expert": 1}}}}.'
    )

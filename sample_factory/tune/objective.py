"""What a trial is worth: the scores of its runs, on a common scale, as one number.

The search and the confirmation ask it. Scores come from the run's record, from its learning curve, or from
the last line a foreign program prints. Invariant: a number that is missing or not finite is None, never 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.benchmark.curves import Curve, last_value, read_curve
from sample_factory.benchmark.readers import dig, read_record
from sample_factory.benchmark.run_record import CONFIG_FILE, RUN_FILE
from sample_factory.benchmark.runs import ReadOptions
from sample_factory.benchmark.statistics.aggregates import trimmed_mean
from sample_factory.config.experiment_files import CFG_FILE
from sample_factory.runner.errors import RunnerError
from sample_factory.runner.yaml_loading import load_yaml

SCORE = "score"
_TAIL_BYTES = 4096

AGGREGATES: dict[str, Callable[[np.ndarray], Any]] = {
    "mean": np.mean,
    "median": np.median,
    "iqm": trimmed_mean,
    "min": np.min,
}

RunKey = tuple[str, int]  # environment and seed


@dataclass(frozen=True)
class Objective:
    """How trials are judged.

    Attributes:
        envs: every trial is trained on each of them.
        seeds: with each of these seeds.
        metric: "score", a tag of metrics.jsonl (it has a slash), or a dotted path in run.json.
        direction: "maximize" or "minimize".
        aggregate: of the seeds of an environment.
        targets: scores that count as 0 and 1; needed with several environments.
    """

    envs: tuple[str, ...]
    seeds: tuple[int, ...]
    metric: str = SCORE
    direction: str = "maximize"
    aggregate: str = "mean"
    targets: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def run_keys(self) -> list[RunKey]:
        """The runs of a trial, seed by seed, so that early ones say something of every environment."""
        return [(env, seed) for seed in self.seeds for env in self.envs]

    @property
    def tag(self) -> str | None:
        """The tag of the learning curve; None is what runs are ranked by."""
        return self.metric if "/" in self.metric else None

    def is_better(self, first: float, second: float) -> bool:
        """Whether the first of two values is the better one."""
        return first > second if self.direction == "maximize" else first < second

    def value(self, scores: Mapping[RunKey, float]) -> float:
        """The worth of a trial: seeds are aggregated per environment, environments averaged.

        Args:
            scores: of some runs, at least one of them; environments without any are left out.
        """
        aggregate = AGGREGATES[self.aggregate]
        per_env = [
            aggregate(np.array([self.on_common_scale(env, score) for (env, _), score in of_env]))
            for name in self.envs
            if (of_env := [(key, score) for key, score in scores.items() if key[0] == name])
            for env in (name,)
        ]
        return float(np.mean(per_env))

    def on_common_scale(self, env: str, score: float) -> float:
        """A score, normalised if its environment has targets."""
        if env not in self.targets:
            return score
        low, high = self.targets[env]
        return (score - low) / (high - low)

    def run_score(self, directory: Path, log: Path) -> float | None:
        """The score of a run that has ended; None if it left none."""
        if (directory / RUN_FILE).exists() and any(
            (directory / name).exists() for name in (CONFIG_FILE, CFG_FILE)
        ):
            run = read_record(directory, ReadOptions())
            value = run.score if self.metric == SCORE else dig(run.record, self.metric)
            if self.tag is not None:
                value = last_value(directory, self.tag)
            return _finite(value)
        return _finite(_printed(log).get(self.metric))

    def curve(self, directory: Path) -> Curve | None:
        """The learning curve of a run, as far as it has got."""
        return read_curve(directory, self.tag) if directory.is_dir() else None


def read_targets(path: Path | None) -> dict[str, tuple[float, float]]:
    """The file of `--target_scores`, JSON or YAML: `env: [low, high]`, or `env: {random: low, expert: high}`.

    Raises:
        RunnerError: the file holds something else.
    """
    if path is None:
        return {}
    targets = {}
    for env, ends in load_yaml(path).items():
        if isinstance(ends, Mapping):
            ends = [ends.get("random"), ends.get("expert")]
        numbers = [_finite(end) for end in ends] if isinstance(ends, list) and len(ends) == 2 else [None]
        if None in numbers or numbers[0] == numbers[1]:
            raise RunnerError(
                f"--target_scores={path}: write `{env}: [low, high]` with two different numbers."
            )
        targets[str(env)] = (float(numbers[0] or 0.0), float(numbers[1] or 0.0))
    return targets


def _printed(log: Path) -> dict[str, Any]:
    """The last line of a log, if it is a JSON object."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
        content = json.loads(lines[-1]) if lines else {}
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None

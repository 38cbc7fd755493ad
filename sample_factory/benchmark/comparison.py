"""One algorithm against another: probability of improvement, tests per environment, and a verdict.

`compare` and the regression gate use it. The first set of runs is the candidate, the second the baseline;
above one half means that the candidate is better.

Invariant: only environments on which both ran are compared, and the others are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sample_factory.benchmark.errors import BenchmarkError, ExitCode
from sample_factory.benchmark.references import ReferenceTable
from sample_factory.benchmark.runs import Run
from sample_factory.benchmark.statistics.aggregates import as_tasks, iqm
from sample_factory.benchmark.statistics.bootstrap import Bootstrap, Interval, interval
from sample_factory.benchmark.statistics.improvement import (
    more_runs_needed,
    probability_of_improvement,
    task_improvement,
)
from sample_factory.benchmark.statistics.significance import holm, mann_whitney_p

Scores = dict[str, np.ndarray]  # environment -> one score per run


@dataclass(frozen=True)
class Contestant:
    """One side of a comparison: the runs of one algorithm from one place."""

    algo: str
    place: str
    scores: Scores

    @property
    def name(self) -> str:
        """`APPO (runs/new)`."""
        return f"{self.algo} ({self.place})" if self.place else self.algo


@dataclass(frozen=True)
class EnvComparison:
    """The two on one environment."""

    env: str
    improvement: float
    p_value: float
    p_holm: float
    mean_candidate: float
    mean_baseline: float
    runs: tuple[int, int]


@dataclass(frozen=True)
class Comparison:
    """The outcome.

    Attributes:
        improvement: probability that a run of the candidate beats one of the baseline, mean over
            environments.
        interval: of it.
        iqm_difference: of normalised scores, or of raw ones with a single environment; else None.
        iqm_interval: of the difference.
        runs_needed: more runs per environment that would decide it; None if the two look the same.
        warnings: what the reader should know about the data.
    """

    candidate: Contestant
    baseline: Contestant
    envs: list[EnvComparison]
    improvement: float
    interval: Interval
    settings: Bootstrap
    iqm_difference: float | None = None
    iqm_interval: Interval | None = None
    runs_needed: int | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """What the numbers say, in words."""
        if not self.interval.is_known:
            return "not decidable: at least two runs per environment are needed"
        if self.interval.low > 0.5:
            return "likely better (interval above 0.5)"
        if self.interval.high < 0.5:
            return "likely worse (interval below 0.5)"
        if self.runs_needed is None:
            return "no evidence either way; the two look the same"
        return (
            "no evidence either way; with this spread about "
            f"{self.runs_needed} more seeds per env would be needed"
        )

    def is_below(self, limit: float) -> bool:
        """Whether the candidate is worse than `limit` beyond noise: the gate of a regression test.

        Raises:
            BenchmarkError: single runs say nothing about noise.
        """
        if not self.interval.is_known:
            raise BenchmarkError("--fail_below needs at least two runs per environment on both sides.")
        return self.interval.high < limit


def choose_algorithms(
    candidates: Sequence[Run], baselines: Sequence[Run], algo: str | None, baseline_algo: str | None
) -> tuple[str, str]:
    """Which algorithms to compare, as far as the user left it open.

    The only algorithm among some runs needs no name. The baseline is the only one, else the one with the
    candidate's name.

    Raises:
        BenchmarkError: it is not clear, or a name does not occur.
    """
    available = sorted({run.algo for run in candidates})
    algo = algo or (available[0] if len(available) == 1 else None)
    if algo is None:
        raise BenchmarkError(f"several algorithms: pass --algo with one of {', '.join(available)}.")
    if algo not in available:
        raise BenchmarkError(f"there is no algorithm {algo}; pass --algo with one of {', '.join(available)}.")
    choices = sorted({run.algo for run in baselines})
    if baseline_algo is None:
        baseline_algo = choices[0] if len(choices) == 1 else algo if algo in choices else None
    if baseline_algo is None or baseline_algo not in choices:
        raise BenchmarkError(
            f"which baseline? pass --baseline_algo with one of {', '.join(choices)}.",
        )
    return algo, baseline_algo


def contestant(runs: Sequence[Run], algo: str, place: str, envs: Sequence[str] = ()) -> Contestant:
    """The scores of one algorithm, on all environments or only some."""
    scores: dict[str, list[float]] = {}
    for run in runs:
        if run.algo == algo and run.score is not None and (not envs or run.env in envs):
            scores.setdefault(run.env, []).append(run.score)
    return Contestant(algo, place, {env: np.array(values) for env, values in sorted(scores.items())})


def compare(
    candidate: Contestant, baseline: Contestant, settings: Bootstrap, references: ReferenceTable
) -> Comparison:
    """Compares two algorithms on the environments they share.

    Raises:
        BenchmarkError: they share none.
    """
    envs = sorted(candidate.scores.keys() & baseline.scores.keys())
    if not envs:
        raise BenchmarkError(
            f"{candidate.name} and {baseline.name} have no environment in common: "
            f"{', '.join(candidate.scores)} against {', '.join(baseline.scores)}.",
            ExitCode.NOTHING_FOUND,
        )
    x = as_tasks([candidate.scores[env] for env in envs])
    y = as_tasks([baseline.scores[env] for env in envs])
    bounds = interval(probability_of_improvement, x, y, settings=settings)
    undecided = bounds.is_known and bounds.low <= 0.5 <= bounds.high
    difference, difference_bounds = _iqm_difference(envs, x, y, settings, references)
    return Comparison(
        candidate=candidate,
        baseline=baseline,
        envs=_per_environment(envs, x, y),
        improvement=float(probability_of_improvement(x, y)),
        interval=bounds,
        settings=settings,
        iqm_difference=difference,
        iqm_interval=difference_bounds,
        runs_needed=more_runs_needed(x, y, settings) if undecided else None,
        warnings=_warnings(candidate, baseline, envs),
    )


def _per_environment(
    envs: Sequence[str], x: Sequence[np.ndarray], y: Sequence[np.ndarray]
) -> list[EnvComparison]:
    p_values = [mann_whitney_p(a, b) for a, b in zip(x, y, strict=True)]
    adjusted = holm(p_values)
    return [
        EnvComparison(
            env=env,
            improvement=float(task_improvement(x[i], y[i])),
            p_value=p_values[i],
            p_holm=adjusted[i],
            mean_candidate=float(x[i].mean()),
            mean_baseline=float(y[i].mean()),
            runs=(len(x[i]), len(y[i])),
        )
        for i, env in enumerate(envs)
    ]


def _iqm_difference(
    envs: Sequence[str],
    x: Sequence[np.ndarray],
    y: Sequence[np.ndarray],
    settings: Bootstrap,
    references: ReferenceTable,
) -> tuple[float | None, Interval | None]:
    if references.is_normalized:
        x = [references.references[env].normalize(task) for env, task in zip(envs, x, strict=True)]
        y = [references.references[env].normalize(task) for env, task in zip(envs, y, strict=True)]
    elif len(envs) > 1:
        return None, None

    def difference(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> np.ndarray:
        return iqm(a) - iqm(b)

    return float(difference(x, y)), interval(difference, x, y, settings=settings)


def _warnings(candidate: Contestant, baseline: Contestant, envs: Sequence[str]) -> list[str]:
    warnings = []
    for side in (candidate, baseline):
        dropped = sorted(side.scores.keys() - set(envs))
        if dropped:
            warnings.append(f"only {side.name} ran on {', '.join(dropped)}: left out.")
    if (candidate.algo, candidate.place) == (baseline.algo, baseline.place):
        warnings.append("candidate and baseline are the same runs.")
    counts = {len(side.scores[env]) for side in (candidate, baseline) for env in envs}
    if len(counts) > 1:
        warnings.append(
            f"numbers of runs differ ({min(counts)} to {max(counts)}); every environment weighs the same."
        )
    return warnings

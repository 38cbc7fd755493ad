"""Phase 2: the best trials and the default configuration once more, on seeds the search has not seen.

The best of many noisy values is partly the luckiest, so phase 1 promises too much; fresh seeds tell what a
configuration is worth. Invariant: the default configuration is always among the candidates, and can win.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sample_factory.benchmark.statistics.bootstrap import Bootstrap, Interval, interval
from sample_factory.benchmark.statistics.improvement import probability_of_improvement
from sample_factory.runner.jobs import Job
from sample_factory.runner.manifest import JobRecord, State
from sample_factory.tune.flags import TuneOptions
from sample_factory.tune.objective import Objective, RunKey
from sample_factory.tune.search import CONFIGURATION, finished_trials
from sample_factory.tune.space import Params
from sample_factory.tune.trial_jobs import CONFIRM, DEFAULT_TRIAL, make_jobs

if TYPE_CHECKING:
    from optuna.study import Study


@dataclass(frozen=True)
class Candidate:
    """A configuration to confirm.

    Attributes:
        number: of its trial.
        params: what distinguishes it.
        phase1: its value in the search; None if the default configuration failed there.
        jobs: its runs on fresh seeds.
    """

    number: int
    params: Params
    phase1: float | None
    jobs: Mapping[RunKey, Job]


@dataclass(frozen=True)
class Confirmed:
    """What fresh seeds say about a candidate.

    Attributes:
        scores: by environment and seed.
        mean: the objective's mean over seeds, environments on their common scale.
        std: population standard deviation over seeds of the mean over environments.
        ci: bootstrap interval of the mean.
        improvement: probability that a run of it beats one of the default configuration; None for itself.
        improvement_ci: its interval.
        failed: runs without a score.
    """

    candidate: Candidate
    scores: Mapping[RunKey, float]
    mean: float
    std: float
    ci: Interval
    improvement: float | None
    improvement_ci: Interval | None
    failed: int


def choose_candidates(study: Study, options: TuneOptions) -> list[Candidate]:
    """The best trials of the search, best first, and the default configuration."""
    finished = finished_trials(study)
    sign = -1.0 if options.objective.direction == "maximize" else 1.0
    ranked = sorted(finished, key=lambda trial: (sign * (trial.value or 0.0), trial.number))[: options.top_k]
    chosen = {trial.number: trial.value for trial in ranked}
    default = next((trial for trial in finished if trial.number == DEFAULT_TRIAL), None)
    chosen.setdefault(DEFAULT_TRIAL, default.value if default is not None else None)
    configurations = {
        trial.number: dict(trial.user_attrs.get(CONFIGURATION) or {})
        for trial in study.get_trials(deepcopy=False)
    }
    keys = [(env, seed) for seed in options.eval_seeds for env in options.objective.envs]
    return [
        Candidate(
            number,
            configurations[number],
            value,
            make_jobs(options, CONFIRM, number, configurations[number], keys),
        )
        for number, value in chosen.items()
    ]


def judge(
    candidates: Sequence[Candidate], records: Mapping[str, JobRecord], objective: Objective
) -> list[Confirmed]:
    """The candidates with what their runs scored, best first; those without any score are left out."""
    scores = {item.number: _scores(item, records, objective) for item in candidates}
    confirmed = [
        _confirmed(item, scores[item.number], scores[DEFAULT_TRIAL], objective)
        for item in candidates
        if scores[item.number]
    ]
    return sorted(confirmed, key=lambda item: -item.mean if objective.direction == "maximize" else item.mean)


def _scores(
    candidate: Candidate, records: Mapping[str, JobRecord], objective: Objective
) -> dict[RunKey, float]:
    found = {}
    for key, job in candidate.jobs.items():
        record = records.get(job.id)
        if record is not None and record.state is State.COMPLETED:
            log = Path(record.last_attempt.log) if record.attempts else Path("/dev/null")
            score = objective.run_score(Path(record.directory), log)
            if score is not None:
                found[key] = score
    return found


def _confirmed(
    candidate: Candidate,
    scores: Mapping[RunKey, float],
    default_scores: Mapping[RunKey, float],
    objective: Objective,
) -> Confirmed:
    tasks = _tasks(scores, objective)
    settings = Bootstrap()
    per_seed = [
        np.mean(
            [objective.on_common_scale(env, score) for (env, other), score in scores.items() if other == seed]
        )
        for seed in sorted({seed for _, seed in scores})
    ]
    improvement = improvement_ci = None
    ours, theirs = _in_common(scores, default_scores, objective)
    if candidate.number != DEFAULT_TRIAL and ours:
        # A run is better with a lower value when the study minimises.
        first, second = (ours, theirs) if objective.direction == "maximize" else (theirs, ours)
        improvement = float(probability_of_improvement(first, second))
        improvement_ci = interval(probability_of_improvement, first, second, settings=settings)
    return Confirmed(
        candidate=candidate,
        scores=scores,
        mean=float(np.mean([task.mean() for task in tasks])),
        std=float(np.std(per_seed)),
        ci=interval(_mean, tasks, settings=settings),
        improvement=improvement,
        improvement_ci=improvement_ci,
        failed=len(candidate.jobs) - len(scores),
    )


def _mean(tasks: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack([task.mean(axis=-1) for task in tasks], axis=-1).mean(axis=-1)


def _tasks(scores: Mapping[RunKey, float], objective: Objective) -> list[np.ndarray]:
    """One array of comparable scores per environment that has any."""
    by_env = (
        [objective.on_common_scale(env, score) for (name, _), score in sorted(scores.items()) if name == env]
        for env in objective.envs
    )
    return [np.array(values) for values in by_env if values]


def _in_common(
    ours: Mapping[RunKey, float], theirs: Mapping[RunKey, float], objective: Objective
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    envs = {env for env, _ in ours} & {env for env, _ in theirs}
    first, second = (
        {key: score for key, score in scores.items() if key[0] in envs} for scores in (ours, theirs)
    )
    return _tasks(first, objective), _tasks(second, objective)

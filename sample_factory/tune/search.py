"""Phase 1: asks Optuna for configurations, has the engine train them, tells Optuna what came out.

`Search` directs the runner's engine: it is called after every look at the jobs. Optuna's journal knows the
trials, the runner's manifest knows the jobs, and a run's own directory knows its score; a tuner that is
started again puts these three together and goes on.

Invariants: a trial is told its result once; every job of a trial that has ended is over or was dropped; the
default configuration is trial 0.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sample_factory.runner.engine import Engine
from sample_factory.runner.jobs import Job
from sample_factory.runner.manifest import JobRecord, State
from sample_factory.tune.flags import TuneOptions
from sample_factory.tune.objective import RunKey
from sample_factory.tune.sampling import continued, make_pruner, make_sampler
from sample_factory.tune.space import Params
from sample_factory.tune.trial_jobs import DEFAULT_TRIAL, SEARCH, make_jobs

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

# What a finished trial leaves in the journal besides its value.
CONFIGURATION, SEED_SCORES, REASON, PRUNED = "configuration", "seed_scores", "reason", "pruned"
_FIRST_TRIALS, _TOLERATED_FAILURES = 10, 5
_CURVE_POLL_SEC = 2.0


@dataclass
class OpenTrial:
    """A trial whose jobs are not over.

    Attributes:
        trial: Optuna's.
        jobs: by environment and seed.
        scores: of the runs that have ended.
        reported: steps that Optuna knows a value of.
    """

    trial: Trial
    jobs: dict[RunKey, Job]
    scores: dict[RunKey, float] = field(default_factory=dict)
    reported: set[int] = field(default_factory=set)

    @property
    def job_ids(self) -> list[str]:
        """What the engine calls its jobs."""
        return [job.id for job in self.jobs.values()]


class Search:
    """Directs the engine through phase 1.

    Args:
        study: Optuna's, from `open_study`.
        options: what the user wants.
    """

    def __init__(self, study: Study, options: TuneOptions):
        self.failure = ""  # why the search was given up
        self._study = study
        self._options = options
        self._open: list[OpenTrial] = []
        self._began_at = time.monotonic()
        self._looked_at = 0.0
        self._grid = options.space.grid(options.defaults) if options.sampler == "grid" else None
        steps = int(options.params.get("train_for_env_steps") or 0)
        comparisons = steps // options.pruner_interval if options.pruner_interval else 0
        study.pruner = make_pruner(options.pruner, comparisons)

    def direct(self, engine: Engine) -> bool:
        """One turn: take results, begin trials where there is room."""
        if not self._open:
            self._take_up_unfinished(engine)
        look_at_curves = time.monotonic() - self._looked_at >= _CURVE_POLL_SEC
        if look_at_curves:
            self._looked_at = time.monotonic()
        for item in list(self._open):
            if not self.failure:
                self._advance(item, engine, look_at_curves)
        while not self.failure and self._wants_more() and self._has_room(engine):
            self._begin(engine)
        return bool(self._open) and not self.failure

    def _take_up_unfinished(self, engine: Engine) -> None:
        """Goes on with the trials of a tuner that is no more."""
        for frozen in self._study.get_trials(deepcopy=False):
            if frozen.state.name == "RUNNING":
                self._open_trial(continued(self._study, frozen), engine, set(frozen.intermediate_values))

    def _wants_more(self) -> bool:
        timeout = self._options.timeout_sec
        if timeout and time.monotonic() - self._began_at > timeout:
            return False
        trials = [trial for trial in self._study.get_trials(deepcopy=False) if trial.state.name != "WAITING"]
        usable = sum(trial.state.name != "FAIL" for trial in trials)
        if self._grid is not None and len(trials) > len(self._grid):
            return False
        return usable < self._options.num_samples and len(trials) < self._options.max_total_trials

    def _has_room(self, engine: Engine) -> bool:
        waiting = sum(not record.state.is_final for record in engine.records)
        return waiting < self._options.runner.max_parallel

    def _begin(self, engine: Engine) -> None:
        options, trials = self._options, self._study.get_trials(deepcopy=False)
        number = len(trials)
        self._study.sampler = make_sampler(options.sampler, options.sampler_seed, number)
        # A trial that waits was prepared by a tuner that did not live to begin it.
        if not any(trial.state.name == "WAITING" for trial in trials):
            if number == DEFAULT_TRIAL:
                self._study.enqueue_trial(options.space.defaults(options.defaults))
            elif self._grid is not None:
                self._study.enqueue_trial(self._grid[number - 1])
        self._open_trial(self._study.ask(), engine)

    def _open_trial(self, trial: Trial, engine: Engine, reported: Collection[int] = ()) -> None:
        params = self._configuration(trial)
        jobs = make_jobs(self._options, SEARCH, trial.number, params, self._options.objective.run_keys)
        item = OpenTrial(trial, jobs, reported=set(reported))
        self._open.append(item)
        engine.add(list(item.jobs.values()))
        listed = ", ".join(f"{name}={_short(value)}" for name, value in params.items())
        engine.note(f"trial {trial.number}: {listed or 'the default configuration'}")

    def _configuration(self, trial: Trial) -> Params:
        """What the trial's jobs are told; of the default configuration only what the space itself names."""
        space, defaults = self._options.space, self._options.defaults
        if trial.number != DEFAULT_TRIAL:
            params = space.suggest(trial, defaults)
        else:
            # Optuna learns from it what lies in the space; the jobs get the true defaults.
            fixed = space.defaults(defaults)
            for parameter in space.parameters:
                if parameter.name in fixed:
                    parameter.suggest(trial)
            params = space.given_defaults()
        trial.set_user_attr(CONFIGURATION, params)
        return params

    def _advance(self, item: OpenTrial, engine: Engine, look_at_curves: bool) -> None:
        records = {key: engine.record(job.id) for key, job in item.jobs.items()}
        for key, record in records.items():
            if record.state is State.COMPLETED and key not in item.scores:
                score = self._options.objective.run_score(Path(record.directory), _log(record))
                if score is None:
                    self._fail(item, engine, f"{record.id} left no {self._options.objective.metric}")
                    return
                item.scores[key] = score
                if self._options.pruner == "wilcoxon" and self._is_hopeless(item, key):
                    self._prune(item, engine)
                    return
            elif record.state.is_final and record.state is not State.COMPLETED:
                self._fail(item, engine, f"{record.id} {record.state}: {record.error}")
                return
        if len(item.scores) == len(item.jobs):
            self._complete(item, engine)
        elif look_at_curves and self._options.pruner_interval and self._falls_behind(item, records):
            self._prune(item, engine)

    def _is_hopeless(self, item: OpenTrial, key: RunKey) -> bool:
        """Whether the runs so far are worse than the same runs of the best trial."""
        objective = self._options.objective
        self._report(item, objective.run_keys.index(key), objective.on_common_scale(key[0], item.scores[key]))
        return len(item.scores) < len(item.jobs) and item.trial.should_prune()

    def _falls_behind(self, item: OpenTrial, records: dict[RunKey, JobRecord]) -> bool:
        """Whether the learning curves so far are worse than those of other trials.

        Runs that have not begun are not waited for: with little room seeds come one after the other, in every
        trial alike.
        """
        interval, objective = self._options.pruner_interval, self._options.objective
        begun = {key: record for key, record in records.items() if record.attempts}
        curves = {key: objective.curve(Path(record.directory)) for key, record in begun.items()}
        if not curves or any(curve is None for curve in curves.values()):
            return False
        known = {key: curve for key, curve in curves.items() if curve is not None}
        reached = int(min(float(curve.env_steps[-1]) for curve in known.values()) // interval)
        for step in range(1, reached + 1):
            if step in item.reported:
                continue
            at_step = {
                key: float(np.interp(step * interval, curve.env_steps, curve.values))
                for key, curve in known.items()
            }
            self._report(item, step, objective.value(at_step))
        # Also without a new step: others may have got further since, and show that this one is behind.
        return bool(item.reported) and item.trial.should_prune()

    @staticmethod
    def _report(item: OpenTrial, step: int, value: float) -> None:
        if step not in item.reported:
            item.reported.add(step)
            item.trial.report(value, step)

    def _complete(self, item: OpenTrial, engine: Engine) -> None:
        if self._options.pruner_interval:
            # Others are compared with its whole curve, also with what was learned since the last look.
            self._falls_behind(item, {key: engine.record(job.id) for key, job in item.jobs.items()})
        value = self._options.objective.value(item.scores)
        self._note_scores(item)
        self._tell(item, value=value)
        best = self._study.best_trial
        engine.note(f"trial {item.trial.number}: {value:g} (best {best.value:g}, trial {best.number})")

    def _prune(self, item: OpenTrial, engine: Engine) -> None:
        engine.drop(item.job_ids, "the trial was pruned")
        self._note_scores(item)
        item.trial.set_user_attr(PRUNED, True)
        engine.note(f"trial {item.trial.number}: pruned")
        if self._options.pruner == "wilcoxon":
            # The runs there are say what the trial is worth, and the sampler learns from it.
            self._tell(item, value=self._options.objective.value(item.scores))
        else:
            self._tell(item, state="PRUNED")

    def _fail(self, item: OpenTrial, engine: Engine, reason: str) -> None:
        engine.drop(item.job_ids, "another run of the trial failed")
        self._note_scores(item)
        item.trial.set_user_attr(REASON, reason)
        self._tell(item, state="FAIL")
        engine.note(f"trial {item.trial.number} failed: {reason}")
        first = self._study.get_trials(deepcopy=False)[:_FIRST_TRIALS]
        failed = sum(trial.state.name == "FAIL" for trial in first)
        if failed > _TOLERATED_FAILURES and not self.failure:
            self.failure = f"{failed} of the first {len(first)} trials failed; the last one: {reason}"
            for other in self._open:
                engine.drop(other.job_ids, "the study was given up")

    def _note_scores(self, item: OpenTrial) -> None:
        scores = [[env, seed, score] for (env, seed), score in sorted(item.scores.items())]
        item.trial.set_user_attr(SEED_SCORES, scores)

    def _tell(self, item: OpenTrial, value: float | None = None, state: str | None = None) -> None:
        from optuna.trial import TrialState

        self._study.tell(item.trial, value, state=TrialState[state] if state else None)
        self._open.remove(item)


def finished_trials(study: Study) -> list[FrozenTrial]:
    """The trials that have a value of all their runs."""
    return [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.state.name == "COMPLETE" and not trial.user_attrs.get(PRUNED)
    ]


def _log(record: JobRecord) -> Path:
    return Path(record.last_attempt.log) if record.attempts else Path("/dev/null")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

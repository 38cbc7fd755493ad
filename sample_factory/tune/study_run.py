"""A study from beginning to end: lock, search, confirm, report; the same command again goes on.

`__main__` calls it. Jobs run through the runner's engine and back ends; its manifest is in the study's
directory, so `runner.run --status --run_name=<study>` and `--cancel` work on studies too.

Invariant: of two tuners of one study one gets an error; a study keeps the settings it was begun with.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from sample_factory.processes.directory_lock import DirectoryLock
from sample_factory.runner import choose
from sample_factory.runner.backends.base import Backend
from sample_factory.runner.display import open_display
from sample_factory.runner.engine import Director, Engine, StopRequest
from sample_factory.runner.errors import ExitCode, RunnerError
from sample_factory.runner.jobs import Job
from sample_factory.runner.launch import open_manifest, stop_on_signals
from sample_factory.runner.manifest import Manifest
from sample_factory.runner.resume import select
from sample_factory.runner.run_files import RunFiles
from sample_factory.tune.confirmation import Candidate, Confirmed, choose_candidates, judge
from sample_factory.tune.flags import TuneOptions
from sample_factory.tune.report import print_result, write_reports, write_trials
from sample_factory.tune.sampling import open_study
from sample_factory.tune.search import Search, finished_trials
from sample_factory.tune.trial_jobs import DEFAULT_TRIAL, SEARCH, make_jobs

if TYPE_CHECKING:
    from optuna.study import Study

_SETTINGS = "settings"  # under this name the journal keeps what must not change


class StudyFailedError(RunnerError):
    """The search could not find anything."""

    exit_code = ExitCode.FAILED


class _Workshop:
    """What both phases need to run jobs; stays open for the whole study."""

    def __init__(self, args: argparse.Namespace, manifest: Manifest, backend: Backend):
        self.manifest = manifest
        self._args = args
        self._backend = backend

    def run(self, jobs: Sequence[Job], director: Director | None = None) -> StopRequest:
        """Runs jobs, and those the director adds, to their end."""
        selection = select(self.manifest, jobs, "missing")
        with open_display() as display:
            engine = Engine(
                self.manifest,
                [*selection.to_run, *selection.adopted],
                self._backend,
                choose.make_placement(self._args),
                choose.make_limits(self._args),
                display,
            )
            with stop_on_signals(engine.stop_request):
                engine.run(director)
        return engine.stop_request


def run_study(options: TuneOptions, argv: Sequence[str]) -> ExitCode:
    """Runs what is missing of a study and writes its reports.

    Raises:
        RunnerError: when the study can't be run.
    """
    args = options.runner
    if args.dry_run or args.runner == "print":
        for job in make_jobs(options, SEARCH, DEFAULT_TRIAL, {}, options.objective.run_keys).values():
            sys.stdout.write(shlex.join(job.argv) + "\n")
        return ExitCode.OK
    files = RunFiles(options.directory)
    files.create()
    with DirectoryLock(options.directory, "--study_name"):
        study = open_study(options.storage, options.study_name, options.objective.direction)
        _check_settings(study, options)
        if options.analyze_only:
            return _analyze(study, options, Manifest.load(files.manifest))
        commands = choose.make_commands(args, files)
        with closing(choose.make_backend(args, commands, [])) as backend:
            manifest = open_manifest(files, args, argv, backend)
            return _run(study, options, _Workshop(args, manifest, backend))


def _run(study: Study, options: TuneOptions, workshop: _Workshop) -> ExitCode:
    search = Search(study, options)
    stop = workshop.run([], search)
    write_trials(study, options)
    if stop.count:
        return stop.exit_code
    if search.failure:
        raise StudyFailedError(search.failure)
    if not finished_trials(study):
        raise StudyFailedError(f"no trial has a value; {options.directory}/trials.csv says why.")
    candidates = choose_candidates(study, options) if options.eval_seeds else []
    if candidates:
        stop = workshop.run([job for item in candidates for job in item.jobs.values()])
        if stop.count:
            return stop.exit_code
    return _conclude(study, options, candidates, workshop.manifest)


def _analyze(study: Study, options: TuneOptions, manifest: Manifest) -> ExitCode:
    """The reports of what there is."""
    if not finished_trials(study):
        write_trials(study, options)
        raise StudyFailedError("no trial has a value yet; run the study without --analyze_only.")
    return _conclude(
        study, options, choose_candidates(study, options) if options.eval_seeds else [], manifest
    )


def _conclude(
    study: Study, options: TuneOptions, candidates: Sequence[Candidate], manifest: Manifest
) -> ExitCode:
    confirmed: list[Confirmed] = judge(candidates, manifest.records, options.objective) if candidates else []
    write_trials(study, options)
    write_reports(study, options, confirmed)
    print_result(study, options, confirmed)
    incomplete = len(confirmed) < len(candidates) or any(item.failed for item in confirmed)
    return ExitCode.FAILED if incomplete else ExitCode.OK


def _check_settings(study: Study, options: TuneOptions) -> None:
    """Refuses to mix trials that can't be compared."""
    now = _comparable(options)
    before = study.user_attrs.get(_SETTINGS)
    if before is None:
        study.set_user_attr(_SETTINGS, now)
        return
    changed = [name for name, value in now.items() if before.get(name) != value]
    if changed:
        raise RunnerError(
            f"the study {options.study_name} was begun with {changed[0]}={before.get(changed[0])}, not "
            f"{now[changed[0]]}; use --study_name=NEW."
        )


def _comparable(options: TuneOptions) -> dict[str, Any]:
    objective = options.objective
    return {
        "cmd": options.command,
        "algo": options.algo,
        "envs": list(objective.envs),
        "repeat": len(objective.seeds),
        "metric": objective.metric,
        "aggregate": objective.aggregate,
        "target_scores": {env: list(ends) for env, ends in sorted(objective.targets.items())},
        "params": {name: str(value) for name, value in sorted(options.params.items())},
    }

"""Running a suite: launch its experiments, score those that are complete, keep what normalisation needs.

`benchmark run` calls `run_suite`. Starting the same command again goes on: the runner starts what is
missing, and runs that have their score are not played again.

Invariant: a run that fails to train or to be scored makes the exit code non-zero, and is named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sample_factory.benchmark.errors import ExitCode
from sample_factory.benchmark.readers import dig
from sample_factory.benchmark.references import BASELINES_FILE, read_baselines
from sample_factory.benchmark.run_record import (
    ALGO_LABEL_VARIABLE,
    OUTPUT_FILE,
    RUN_FILE,
    RunStatus,
    read_json_object,
)
from sample_factory.benchmark.status import output_file
from sample_factory.benchmark.suites import Scoring, Suite
from sample_factory.config.experiment_files import write_json
from sample_factory.runner.jobs import Job, plan_jobs
from sample_factory.runner.launch import launch
from sample_factory.runner.run_description import RunDescription

EVAL_FILE = "eval/final/eval.json"
_DONE_FILE = "done"
_SCORING_MODULE = "sample_factory.benchmark.scoring"
_RANDOM_EPISODES = 100

Launch = Callable[[RunDescription, argparse.Namespace, Sequence[str]], int]
Command = Callable[[Sequence[str], dict[str, str]], "Answer"]


@dataclass(frozen=True)
class Answer:
    """What a scoring process said; `score` is None if it failed, and `error` says why."""

    score: float | None = None
    error: str = ""


@dataclass(frozen=True)
class SuiteTools:
    """What running a suite needs from outside; tests bring their own."""

    launch: Launch
    score: Command


def default_tools() -> SuiteTools:
    """The runner, and processes that play."""
    return SuiteTools(
        launch=lambda description, args, argv: int(launch(description, args, argv)), score=run_scoring
    )


def run_suite(suite: Suite, args: argparse.Namespace, argv: Sequence[str], tools: SuiteTools) -> int:
    """Trains and scores everything a suite describes; the exit code.

    Args:
        suite: what to run.
        args: flags of the runner, and `random_baseline`, `no_eval`.
        argv: the command line they come from.
        tools: what launches and scores.
    """
    description = suite.description()
    if args.dry_run or args.runner == "print":
        return tools.launch(description, args, argv)
    run_dir = Path(args.train_dir) / suite.name
    _say(announcement(suite, args.max_parallel))
    references = {env: dict(ends) for env, ends in suite.references.items()}
    if args.random_baseline:
        references = measured_baselines(suite, references, run_dir, tools.score)
    if references:
        write_json(run_dir / BASELINES_FILE, references)
    exit_code = tools.launch(description, args, argv)
    failed = 0
    if not suite.wraps_scripts:
        jobs = plan_jobs(description, args.train_dir, makedirs=False)
        for job in jobs:
            keep_output(job)
        if suite.scoring.episodes and not args.no_eval:
            failed = score_jobs(jobs, suite.scoring, args.max_parallel, tools.score)
    return exit_code or (ExitCode.RUN_FAILED if failed else ExitCode.OK)


def announcement(suite: Suite, max_parallel: int) -> str:
    """What is about to happen, and how long it may take."""
    text = (
        f"suite {suite.name}: {len(suite.algos)} configurations x {len(suite.envs)} environments x "
        f"{len(suite.seeds)} seeds = {suite.num_runs} runs"
    )
    if suite.expected_minutes is None:
        return text
    hours = suite.expected_minutes * suite.num_runs / max(1, max_parallel) / 60
    return f"{text}, about {hours:.1f} hours with --max_parallel={max_parallel}"


def score_jobs(jobs: Sequence[Job], scoring: Scoring, max_parallel: int, score: Command) -> int:
    """Scores the complete runs that have no score yet; how many of them failed."""
    waiting = [job for job in jobs if job.directory is not None and needs_score(job.directory)]
    if not waiting:
        return 0
    _say(f"scoring {len(waiting)} runs, {scoring.episodes} episodes each")
    with ThreadPoolExecutor(max(1, max_parallel)) as pool:
        answers = list(pool.map(lambda job: score(scoring_arguments(job, scoring), dict(job.env)), waiting))
    failed = 0
    for job, answer in zip(waiting, answers, strict=True):
        if answer.score is None:
            failed += 1
            _say(f"{job.directory} has no score: {answer.error}")
    return failed


def needs_score(directory: Path) -> bool:
    """Whether a run is complete and was not scored since."""
    record = read_json_object(directory / RUN_FILE) or {}
    done = directory / _DONE_FILE
    if not done.exists() and record.get("status") != RunStatus.COMPLETED:
        return False
    evaluation = directory / EVAL_FILE
    if not evaluation.exists() or dig(record, "result.score_source") != "eval":
        return True
    # Training that went on after the evaluation has left a newer mark.
    return done.exists() and done.stat().st_mtime > evaluation.stat().st_mtime


def scoring_arguments(job: Job, scoring: Scoring) -> list[str]:
    """The command line of the scoring process."""
    arguments = [str(job.directory), f"--episodes={scoring.episodes}", f"--checkpoint={scoring.checkpoint}"]
    return [*arguments, "--deterministic"] if scoring.deterministic else arguments


def run_scoring(arguments: Sequence[str], variables: dict[str, str]) -> Answer:
    """Runs a scoring process to its end."""
    label = {key: value for key, value in variables.items() if key == ALGO_LABEL_VARIABLE}
    done = subprocess.run(
        [sys.executable, "-m", _SCORING_MODULE, *arguments],
        capture_output=True,
        text=True,
        check=False,
        # One thread each: several of them run side by side.
        env={**os.environ, "OMP_NUM_THREADS": "1", **label},
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return Answer(error=lines[-1] if lines else f"exit code {done.returncode}")
    return Answer(score=float(json.loads(done.stdout.strip().splitlines()[-1])["score"]))


def measured_baselines(
    suite: Suite, references: dict[str, dict[str, float]], run_dir: Path, score: Command
) -> dict[str, dict[str, float]]:
    """The references with the returns of a random policy; those measured earlier are taken as they are."""
    path = run_dir / BASELINES_FILE
    known = read_baselines(path) if path.exists() else {}
    for env in suite.envs:
        if "random" in known.get(env, {}):
            references.setdefault(env, {})["random"] = known[env]["random"]
            continue
        answer = score([f"--random={env}", f"--episodes={_RANDOM_EPISODES}"], {})
        if answer.score is None:
            _say(f"no random baseline for {env}: {answer.error}")
        else:
            references.setdefault(env, {})["random"] = answer.score
    return references


def keep_output(job: Job) -> None:
    """Links what a run printed, which the runner keeps among its logs, into the run's own directory."""
    if job.directory is None or not job.directory.is_dir():
        return
    link = job.directory / OUTPUT_FILE
    printed = output_file(job.directory)
    if printed is not None and printed != link and not link.is_symlink():
        link.symlink_to(os.path.relpath(printed, job.directory))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")

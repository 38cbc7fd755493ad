"""`benchmark run SUITE`: trains environments x configurations x seeds through the runner, then scores runs.

All flags of the runner work here too. The same command again goes on where it stopped.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sample_factory.benchmark.commands.arguments import warn
from sample_factory.benchmark.errors import BenchmarkError, ExitCode
from sample_factory.benchmark.references import BASELINES_FILE, read_baselines
from sample_factory.benchmark.runs import ReadOptions, find_runs
from sample_factory.benchmark.sacred_layout import write_sacred_layout
from sample_factory.benchmark.statistics.improvement import probability_of_improvement
from sample_factory.benchmark.statistics.sequential import look_levels, permutation_p
from sample_factory.benchmark.suite_files import find_suite
from sample_factory.benchmark.suite_run import SuiteTools, default_tools, run_suite
from sample_factory.benchmark.suites import SUITES, Suite
from sample_factory.benchmark.summary import SummaryOptions, summarize
from sample_factory.benchmark.summary_tables import comparison_table
from sample_factory.benchmark.tables import to_text
from sample_factory.processes.directory_lock import DirectoryInUseError
from sample_factory.runner.errors import RunnerError
from sample_factory.runner.flags import runner_argparser
from sample_factory.runner.yaml_loading import parse_yaml


def main(argv: Sequence[str], tools: SuiteTools | None = None) -> int:
    """Parses the flags and runs the suite; the exit code."""
    args = parser().parse_args(argv)
    if args.list_suites:
        sys.stdout.write(
            "".join(f"{suite.name:12} {suite.num_runs:4} runs  {suite.about}\n" for suite in SUITES.values())
        )
        return ExitCode.OK
    if args.suite is None:
        raise BenchmarkError(f"which suite? name a .yaml file or one of {', '.join(SUITES)}.")
    if args.run is not None or args.config is not None:
        raise BenchmarkError("--run and --config belong to the runner; benchmark run takes a suite.")
    try:
        suite = chosen_suite(args)
        tools = tools or default_tools()
        if args.until_decided:
            exit_code, suite = run_until_decided(suite, args, argv, tools)
        else:
            exit_code = run_suite(suite, args, list(argv), tools)
    except (RunnerError, DirectoryInUseError) as error:
        raise BenchmarkError(str(error)) from error
    if not (args.dry_run or args.runner == "print"):
        _conclude(suite, args)
    return exit_code


def parser() -> argparse.ArgumentParser:
    """The runner's flags and ours."""
    parser = runner_argparser()
    parser.prog = "python -m sample_factory.benchmark run"
    parser.description = "Run a benchmark suite and score every run."
    group = parser.add_argument_group("benchmark")
    group.add_argument("suite", nargs="?", metavar="SUITE", help="name of a suite, or a .yaml file")
    group.add_argument("--list_suites", action="store_true", help="show the suites and leave")
    group.add_argument("--algos", nargs="+", metavar="LABEL", help="only these configurations of the suite")
    group.add_argument(
        "--eval_episodes", type=int, help="episodes each final policy plays; the suite's if not given"
    )
    group.add_argument("--no_eval", action="store_true", help="train only")
    group.add_argument(
        "--random_baseline", action="store_true", help="measure a random policy on each environment"
    )
    group.add_argument(
        "--until_decided",
        action="store_true",
        help="of two configurations: add seeds until one is better, or --max_seeds are done",
    )
    group.add_argument(
        "--max_seeds", type=int, help="seeds with --until_decided; four times the first ones if not given"
    )
    group.add_argument(
        "--layout", choices=("sf", "sacred"), default="sf", help="sacred: also write imitation's tree of runs"
    )
    return parser


def chosen_suite(args: argparse.Namespace) -> Suite:
    """The suite with what the flags change about it."""
    suite = find_suite(args.suite).restricted(args.envs or None, _seeds(args), args.algos)
    if args.run_name:
        suite = replace(suite, name=args.run_name)
    if args.eval_episodes is not None:
        suite = replace(suite, scoring=replace(suite.scoring, episodes=args.eval_episodes))
    if not args.set:
        return suite
    params = dict(suite.params)
    for assignment in args.set:
        key, separator, text = assignment.partition("=")
        if not separator:
            raise BenchmarkError(f"--set={assignment} has no value; write --set gamma=0.99.")
        params[key] = parse_yaml(text, f"--set={assignment}")
    return replace(suite, params=params)


def run_until_decided(
    suite: Suite, args: argparse.Namespace, argv: Sequence[str], tools: SuiteTools
) -> tuple[int, Suite]:
    """Runs a suite of two configurations with more and more seeds, until it is clear which one is better.

    Raises:
        BenchmarkError: there are not two configurations.
    """
    if len(suite.algos) != 2:
        listed = " ".join(list(suite.algos)[:2])
        raise BenchmarkError(f"--until_decided compares two configurations; choose them: --algos {listed}.")
    first, second = suite.algos
    looks = seeds_of_looks(suite.seeds, args.max_seeds)
    for seeds, level in zip(looks, look_levels(len(looks)), strict=True):
        suite = replace(suite, seeds=seeds)
        exit_code = run_suite(suite, args, list(argv), tools)
        if exit_code:
            return exit_code, suite
        x, y = _shared_scores(suite, args, first, second)
        p_value, improvement = permutation_p(x, y), float(probability_of_improvement(x, y))
        decided = p_value <= level
        sys.stderr.write(
            f"{len(seeds)} seeds: P({first} beats {second}) = {improvement:.3f}, p = {p_value:.4f}, "
            f"{'decided' if decided else f'not decided (needs {level:.4f})'}\n"
        )
        if decided:
            break
    return ExitCode.OK, suite


def seeds_of_looks(seeds: Sequence[int], max_seeds: int | None) -> list[tuple[int, ...]]:
    """The seeds at each look: as many more each time as there were at first."""
    step = len(seeds)
    limit = max(step, max_seeds if max_seeds is not None else 4 * step)
    more = itertools.count(max(seeds) + 1)
    everything = (*seeds, *itertools.islice(more, limit - step))
    return [everything[:end] for end in (*range(step, limit, step), limit)]


def _shared_scores(
    suite: Suite, args: argparse.Namespace, first: str, second: str
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    run_dir = Path(args.train_dir) / suite.name
    scores: dict[tuple[str, str], list[float]] = {}
    for run in find_runs([run_dir], _read_options(suite, args)).scored:
        if run.seed in suite.seeds and run.score is not None:
            scores.setdefault((run.algo, run.env), []).append(run.score)
    envs = [env for env in suite.envs if (first, env) in scores and (second, env) in scores]
    if not envs:
        raise BenchmarkError(f"{first} and {second} have no scores on the same environment.")
    x, y = ([np.array(scores[label, env]) for env in envs] for label in (first, second))
    return x, y


def _read_options(suite: Suite, args: argparse.Namespace) -> ReadOptions:
    played = suite.wraps_scripts or (suite.scoring.episodes and not args.no_eval)
    return ReadOptions(score="auto" if played else "train", score_tag=suite.scoring.tag)


def _seeds(args: argparse.Namespace) -> list[int] | None:
    if args.seeds:
        return list(args.seeds)
    if args.num_seeds is not None:
        return list(range(args.start_seed, args.start_seed + args.num_seeds))
    return None


def _conclude(suite: Suite, args: argparse.Namespace) -> None:
    """Prints the scores there are, and where to go from here."""
    run_dir = Path(args.train_dir) / suite.name
    options = _read_options(suite, args)
    try:
        found = find_runs([run_dir], options)
        baselines = run_dir / BASELINES_FILE
        summary = summarize(
            found,
            SummaryOptions(baselines=read_baselines(baselines if baselines.exists() else None)),
            options,
        )
    except BenchmarkError as error:
        warn([f"nothing to show yet: {error}"])
        return
    if args.layout == "sacred":
        write_sacred_layout(found.runs, run_dir.with_name(f"{suite.name}_output"))
    warn(summary.notes)
    sys.stdout.write(to_text(comparison_table(summary)) + "\n")
    sys.stderr.write(f"more: python -m sample_factory.benchmark report {run_dir}\n")

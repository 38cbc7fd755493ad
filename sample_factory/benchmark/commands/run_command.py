"""`benchmark run SUITE`: trains environments x configurations x seeds through the runner, then scores runs.

All flags of the runner work here too. The same command again goes on where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sample_factory.benchmark.commands.arguments import warn
from sample_factory.benchmark.errors import BenchmarkError, ExitCode
from sample_factory.benchmark.references import BASELINES_FILE, read_baselines
from sample_factory.benchmark.runs import ReadOptions, find_runs
from sample_factory.benchmark.sacred_layout import write_sacred_layout
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
        exit_code = run_suite(suite, args, list(argv), tools or default_tools())
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


def _seeds(args: argparse.Namespace) -> list[int] | None:
    if args.seeds:
        return list(args.seeds)
    if args.num_seeds is not None:
        return list(range(args.start_seed, args.start_seed + args.num_seeds))
    return None


def _conclude(suite: Suite, args: argparse.Namespace) -> None:
    """Prints the scores there are, and where to go from here."""
    run_dir = Path(args.train_dir) / suite.name
    source = "auto" if suite.wraps_scripts or (suite.scoring.episodes and not args.no_eval) else "train"
    options = ReadOptions(score="train" if source == "train" else "auto", score_tag=suite.scoring.tag)
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

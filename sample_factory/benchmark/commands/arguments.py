"""Flags that several commands share, and what they mean."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from sample_factory.benchmark.errors import BenchmarkError
from sample_factory.benchmark.references import BASELINES_FILE, NORMALIZATIONS, read_baselines
from sample_factory.benchmark.runs import FoundRuns, ReadOptions, find_runs
from sample_factory.benchmark.statistics.bootstrap import Bootstrap
from sample_factory.benchmark.summary import Summary, SummaryOptions, summarize


def add_runs(parser: argparse.ArgumentParser) -> None:
    """The folders or files to read; required."""
    parser.add_argument("runs", nargs="+", metavar="DIR", help="folders of runs, CSV files, evaluations.npz")


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Where in the records the numbers are."""
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--score",
        choices=("auto", "eval", "train"),
        default="auto",
        help="scores of the final policy, or of the last training episodes",
    )
    group.add_argument("--score_key", help="dotted path of the score in run.json, or column of a CSV file")
    group.add_argument("--env_key", help="the same for the environment")
    group.add_argument("--algo_key", help="the same for the algorithm")
    group.add_argument("--score_tag", help="tag in metrics.jsonl that training scores come from")
    group.add_argument(
        "--group_by", nargs="+", default=[], metavar="SETTING", help="settings that split an algorithm"
    )


def add_statistics(parser: argparse.ArgumentParser) -> None:
    """How intervals and normalised scores are computed."""
    group = parser.add_argument_group("statistics")
    group.add_argument(
        "--reps", "--bootstrap_reps", "--bootstrap-reps", type=_positive, default=2000, help="resamples"
    )
    group.add_argument("--ci", type=_share, default=0.95, help="confidence of the intervals")
    group.add_argument("--bootstrap_seed", type=int, default=0, help="seed of the resampling")
    group.add_argument("--task_bootstrap", action="store_true", help="resample environments too")
    group.add_argument("--normalize", choices=NORMALIZATIONS, default="auto", help="what counts as 0 and 1")
    group.add_argument(
        "--baselines", type=Path, help='JSON file {"env": {"random": 0, "expert": 1}} for normalisation'
    )
    group.add_argument(
        "--unequal",
        choices=("weight", "truncate"),
        default="weight",
        help="unequal numbers of runs: same weight per environment, or drop the highest seeds",
    )


def read_options(args: argparse.Namespace) -> ReadOptions:
    """What `add_reading` parsed."""
    return ReadOptions(
        args.score, args.score_key, args.env_key, args.algo_key, tuple(args.group_by), args.score_tag
    )


def bootstrap_of(args: argparse.Namespace) -> Bootstrap:
    """What `add_statistics` parsed about resampling."""
    return Bootstrap(args.reps, args.ci, args.bootstrap_seed, args.task_bootstrap)


def find(paths: Iterable[str], args: argparse.Namespace) -> FoundRuns:
    """The runs below some paths, with remarks about them on stderr."""
    found = find_runs(list(paths), read_options(args))
    warn(found.warnings)
    return found


def summary_of(args: argparse.Namespace) -> Summary:
    """The summary that the flags describe, with remarks on stderr."""
    options = SummaryOptions(
        normalize=args.normalize,
        baselines=baselines_of(args, args.runs),
        bootstrap=bootstrap_of(args),
        truncate=args.unequal == "truncate",
    )
    summary = summarize(find(args.runs, args), options, read_options(args))
    warn(summary.notes)
    return summary


def baselines_of(args: argparse.Namespace, paths: Iterable[str]) -> dict[str, dict[str, float]]:
    """The table of `--baselines`, else those that suites have left beside their runs."""
    if args.baselines is not None:
        return read_baselines(args.baselines)
    found: dict[str, dict[str, float]] = {}
    for path in paths:
        candidate = Path(path) / BASELINES_FILE
        if candidate.is_file():
            found |= read_baselines(candidate)
    return found


def warn(lines: Iterable[str]) -> None:
    """Remarks for people; stdout is for data."""
    for line in lines:
        sys.stderr.write(f"warning: {line}\n")


def deliver(text: str, output: Path | None) -> None:
    """Writes to a file, whole or not at all, or to stdout."""
    if output is None:
        sys.stdout.write(text)
        return
    write_whole(output, text.encode())
    sys.stderr.write(f"wrote {output}\n")


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file under its name only when it is complete.

    Raises:
        BenchmarkError: the disk refuses.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        raise BenchmarkError(
            f"{path} can't be written ({error.strerror}); choose another --output."
        ) from error


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1, for example 2000")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError("must be between 0 and 1, for example 0.95")
    return value

"""Entry point: `sf ls [MASK...]` lists experiments with their scores.

Data goes to stdout, as a table or with `--json` as one array, so that it can be piped.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from sample_factory.benchmark import number_format as text
from sample_factory.benchmark.run_record import strict_json
from sample_factory.benchmark.tables import Table, to_text
from sample_factory.experiments.arguments import add_masks, add_place, chosen, make_parser
from sample_factory.experiments.errors import run_command
from sample_factory.experiments.reading import Experiment, by_status, read_experiments
from sample_factory.runner.durations import parse_duration
from sample_factory.runner.errors import RunnerError

# What to sort by, and whether the largest comes first.
SORT_KEYS: dict[str, tuple[Callable[[Experiment], Any], bool]] = {
    "name": (lambda e: e.name, False),
    "env": (lambda e: (e.run.env, e.name), False),
    "status": (lambda e: (str(e.status), e.name), False),
    "frames": (lambda e: _low(e.frames), True),
    "score": (lambda e: _low(e.score), True),
    "best": (lambda e: _low(e.best_score), True),
    "fps": (lambda e: _low(e.fps), True),
    "age": (lambda e: -e.active, False),
    "size": (lambda e: e.size_bytes, True),
}
_UNITS = ("B", "kB", "MB", "GB", "TB")


def parser() -> argparse.ArgumentParser:
    """The flags of this command."""
    made = make_parser("ls", "List experiments with their environments, frames and scores.")
    add_masks(made)
    add_place(made)
    made.add_argument("--env", metavar="MASK", help="only these environments, for example 'doom_*'")
    made.add_argument("--status", nargs="+", metavar="STATE", help="only these states, for example FAILED")
    made.add_argument("--since", metavar="TIME", help="only what was active lately, for example 2h or 7d")
    made.add_argument("--sort", choices=tuple(SORT_KEYS), default="name", help="order of the list")
    made.add_argument("--reverse", action="store_true", help="turn the order around")
    made.add_argument("--limit", type=int, default=0, metavar="N", help="only the first N; 0 is all")
    made.add_argument("--json", action="store_true", help="one JSON array instead of a table")
    return made


def matching(experiments: Sequence[Experiment], args: argparse.Namespace) -> list[Experiment]:
    """Filters, sorts and cuts a list as the flags say."""
    kept = [experiment for experiment in experiments if _is_wanted(experiment, args)]
    key, descending = SORT_KEYS[args.sort]
    kept.sort(key=key, reverse=descending != args.reverse)
    return kept[: args.limit] if args.limit > 0 else kept


def experiment_table(experiments: Sequence[Experiment], now: float) -> Table:
    """One row per experiment."""
    table = Table(["Experiment", "Env", "Status", "Frames", "Score", "Best", "FPS", "Active", "Size"])
    for experiment in experiments:
        table.rows.append(
            [
                experiment.name,
                experiment.run.env,
                str(experiment.status),
                text.count(experiment.frames),
                short_score(experiment.score),
                short_score(experiment.best_score),
                text.count(experiment.fps),
                ago(experiment, now),
                readable_size(experiment.size_bytes),
            ]
        )
    return table


def ago(experiment: Experiment, now: float) -> str:
    """How long an experiment has been silent, in its largest unit: `5m ago`."""
    return f"{text.duration(max(0.0, now - experiment.active)).split()[0]} ago"


def short_score(value: float | None) -> str:
    """A score as lists show it."""
    return "n/a" if value is None or not math.isfinite(value) else f"{value:.2f}"


def readable_size(size: float) -> str:
    """`812 kB`, `3.4 MB`."""
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            break
        size /= 1000
    return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"


def _is_wanted(experiment: Experiment, args: argparse.Namespace) -> bool:
    if args.env and not fnmatchcase(experiment.run.env, args.env):
        return False
    if args.status and str(experiment.status) not in {state.upper() for state in args.status}:
        return False
    return not args.since or time.time() - experiment.active <= parse_duration(args.since)


def _low(value: float | None) -> float:
    return -math.inf if value is None or math.isnan(value) else value


def _execute(args: argparse.Namespace) -> int:
    experiments = matching(read_experiments(chosen(args)), args)
    if args.json:
        content = strict_json([experiment.to_json() for experiment in experiments])
        sys.stdout.write(json.dumps(content, indent=2) + "\n")
        return 0
    if experiments:
        sys.stdout.write(to_text(experiment_table(experiments, time.time())) + "\n")
    counts = ", ".join(f"{count} {status}" for status, count in by_status(experiments).items())
    sys.stderr.write(f"{len(experiments)} experiments{': ' if counts else ''}{counts}\n")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code."""
    made = parser()
    args = made.parse_args(argv)
    if args.since:
        try:
            parse_duration(args.since)
        except RunnerError:
            made.error(f"--since={args.since} is no duration; write for example --since=2h or --since=7d.")
    return run_command(lambda: _execute(args))


if __name__ == "__main__":
    sys.exit(main())

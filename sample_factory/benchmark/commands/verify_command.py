"""`benchmark verify REPORT [DIR...]`: does a report say what its raw scores, and the runs on disk, say?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sample_factory.benchmark.commands.arguments import add_reading, read_options, warn
from sample_factory.benchmark.errors import ExitCode
from sample_factory.benchmark.runs import find_runs
from sample_factory.benchmark.verification import (
    differences,
    differences_on_disk,
    num_scores,
    read_report,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of this command."""
    parser.add_argument("report", type=Path, help="what `report` or `summary --format=json` wrote")
    parser.add_argument("runs", nargs="*", metavar="DIR", help="also compare with the runs in these folders")
    add_reading(parser)


def execute(args: argparse.Namespace) -> int:
    """Computes everything again and names what differs; exit code 4 if anything does."""
    content = read_report(args.report)
    problems = differences(content)
    if args.runs:
        found = find_runs(args.runs, read_options(args))
        warn(found.warnings)
        problems += differences_on_disk(content, found)
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    if problems:
        sys.stderr.write(f"{args.report}: {len(problems)} numbers are wrong\n")
        return ExitCode.GATE_FAILED
    where = " and the runs on disk" if args.runs else ""
    sys.stdout.write(f"{args.report} agrees with its {num_scores(content)} raw scores{where}\n")
    return ExitCode.OK

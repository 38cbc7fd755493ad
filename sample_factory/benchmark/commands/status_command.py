"""`benchmark status DIR...`: what every run is doing; exit code 1 if one has failed."""

from __future__ import annotations

import argparse
import sys

from sample_factory.benchmark.commands.arguments import add_reading, add_runs, find
from sample_factory.benchmark.errors import ExitCode
from sample_factory.benchmark.status import TROUBLED, last_words, status_table
from sample_factory.benchmark.tables import to_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of this command."""
    add_runs(parser)
    add_reading(parser)


def execute(args: argparse.Namespace) -> int:
    """Prints the table, then counts and last words."""
    found = find(args.runs, args)
    sys.stdout.write(to_text(status_table(found.runs)) + "\n")
    counts = ", ".join(f"{count} {status}" for status, count in sorted(found.status_counts().items()))
    sys.stdout.write(f"{len(found.runs)} runs: {counts}\n")
    troubled = [run for run in found.runs if run.status in TROUBLED]
    for run in troubled:
        sys.stdout.write(f"{run.path}: {last_words(run) or run.status}\n")
    return ExitCode.RUN_FAILED if troubled else ExitCode.OK

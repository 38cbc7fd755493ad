"""`benchmark export DIR...`: learning curves as CSV or JSON, or records, to publish or in sacred's layout."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from sample_factory.benchmark.commands.arguments import (
    add_reading,
    add_runs,
    add_statistics,
    bootstrap_of,
    deliver,
    find,
)
from sample_factory.benchmark.curves import X_AXES
from sample_factory.benchmark.errors import BenchmarkError, ExitCode
from sample_factory.benchmark.export import aligned_table, point_table
from sample_factory.benchmark.publishing import write_records
from sample_factory.benchmark.runs import UNREADABLE
from sample_factory.benchmark.sacred_layout import write_sacred_layout
from sample_factory.benchmark.tables import Table, to_csv

_WRITERS = {"sacred": write_sacred_layout, "records": write_records}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of this command."""
    add_runs(parser)
    parser.add_argument(
        "--format", choices=("csv", "json", "sacred", "records"), default="csv", help="what to write"
    )
    parser.add_argument("--output", type=Path, help="file, or folder for records; stdout if not given")
    parser.add_argument(
        "--tag", nargs="+", default=[None], help="tags in metrics.jsonl; what runs are ranked by if not given"
    )
    parser.add_argument("--align", action="store_true", help="bring seeds onto common points, with intervals")
    parser.add_argument("--x", choices=X_AXES, default="env_steps", help="what --align aligns by")
    add_reading(parser)
    add_statistics(parser)


def execute(args: argparse.Namespace) -> int:
    """Writes curves or records."""
    runs = [run for run in find(args.runs, args).runs if run.status != UNREADABLE]
    if args.format in _WRITERS:
        if args.output is None:
            raise BenchmarkError(f"--format={args.format} needs a folder: pass --output=output.")
        for directory in _WRITERS[args.format](runs, args.output):
            sys.stdout.write(f"{directory}\n")
        return ExitCode.OK
    table = (
        aligned_table(runs, args.tag, args.x, bootstrap_of(args))
        if args.align
        else point_table(runs, args.tag)
    )
    if not table.rows:
        raise BenchmarkError("no run has such values in its metrics.jsonl.", ExitCode.NOTHING_FOUND)
    deliver(to_csv(table) if args.format == "csv" else _json(table), args.output)
    return ExitCode.OK


def _json(table: Table) -> str:
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return json.dumps([{name: _typed(cell) for name, cell in row.items()} for row in rows], indent=1) + "\n"


def _typed(cell: str) -> float | str | None:
    if cell == "":
        return None
    try:
        return float(cell)
    except ValueError:
        return cell

"""`benchmark summary DIR...`: tables of many runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from sample_factory.benchmark import html_report, summary_formats, summary_tables
from sample_factory.benchmark.commands.arguments import (
    add_reading,
    add_runs,
    add_statistics,
    deliver,
    find,
    read_options,
    summary_of,
    warn,
)
from sample_factory.benchmark.errors import ExitCode
from sample_factory.benchmark.runs import scored_runs
from sample_factory.benchmark.tables import to_csv


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of this command."""
    add_runs(parser)
    parser.add_argument(
        "--format", choices=("csv", "markdown", "html", "json", "latex"), default="csv", help="of the output"
    )
    parser.add_argument("--output", type=Path, help="file to write; stdout if not given")
    csv = parser.add_argument_group("CSV")
    csv.add_argument("--columns", choices=("basic", "all"), default="basic", help="what a line says")
    csv.add_argument(
        "--csv_style",
        choices=("plain", "imitation"),
        default="plain",
        help="imitation puts ', ' between columns",
    )
    csv.add_argument("--aggregate", action="store_true", help="one line per algorithm and environment")
    csv.add_argument("--include_unfinished", action="store_true", help="also runs without a score")
    add_reading(parser)
    add_statistics(parser)


def execute(args: argparse.Namespace) -> int:
    """Writes the summary."""
    deliver(_text(args), args.output)
    return ExitCode.OK


def _text(args: argparse.Namespace) -> str:
    if args.format == "csv" and not args.aggregate:
        return _runs_csv(args)
    summary = summary_of(args)
    if args.format == "csv":
        return to_csv(summary_tables.cell_table(summary))
    if args.format == "html":
        return html_report.render(summary, title="Benchmark summary", figures=False)
    formats = {
        "markdown": summary_formats.markdown,
        "json": summary_formats.to_json,
        "latex": summary_formats.latex,
    }
    return formats[args.format](summary)


def _runs_csv(args: argparse.Namespace) -> str:
    found = find(args.runs, args)
    unfinished = [run for run in found.runs if not run.is_scored]
    runs = [] if args.include_unfinished and not found.scored else scored_runs(found, read_options(args))
    if args.include_unfinished:
        runs = runs + unfinished
    elif unfinished:
        warn([f"{len(unfinished)} of {len(found.runs)} runs have no score; --include_unfinished lists them."])
    if args.csv_style == "imitation":
        return summary_formats.imitation_csv(runs)
    columns = summary_tables.ALL_COLUMNS if args.columns == "all" else summary_tables.BASIC_COLUMNS
    return summary_formats.runs_csv(runs, columns)

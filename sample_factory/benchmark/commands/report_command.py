"""`benchmark report DIR...`: everything on one HTML page."""

from __future__ import annotations

import argparse
from pathlib import Path

from sample_factory.benchmark import html_report
from sample_factory.benchmark.commands.arguments import (
    add_reading,
    add_runs,
    add_statistics,
    deliver,
    summary_of,
)
from sample_factory.benchmark.commands.plot_command import add_curves, curve_options
from sample_factory.benchmark.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of this command."""
    add_runs(parser)
    parser.add_argument("--output", type=Path, default=Path("report.html"), help="file to write")
    parser.add_argument("--title", default="Benchmark report", help="of the page")
    parser.add_argument("--no_figures", action="store_true", help="tables only; needs no matplotlib")
    add_curves(parser)
    add_reading(parser)
    add_statistics(parser)


def execute(args: argparse.Namespace) -> int:
    """Writes the page."""
    page = html_report.render(
        summary_of(args), title=args.title, figures=not args.no_figures, options=curve_options(args)
    )
    deliver(page, args.output)
    return ExitCode.OK

"""`benchmark plot DIR...`: figures as PNG and SVG files."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

from sample_factory.benchmark import plots
from sample_factory.benchmark.commands.arguments import (
    add_reading,
    add_runs,
    add_statistics,
    summary_of,
    warn,
    write_whole,
)
from sample_factory.benchmark.curves import X_AXES
from sample_factory.benchmark.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of this command."""
    add_runs(parser)
    parser.add_argument(
        "--kind", nargs="+", choices=tuple(plots.KINDS), default=list(plots.KINDS), help="which figures"
    )
    parser.add_argument("--output", type=Path, default=Path("plots"), help="folder for the files")
    parser.add_argument(
        "--formats", nargs="+", choices=("png", "svg", "pdf"), default=["png", "svg"], help="of the files"
    )
    add_curves(parser)
    add_reading(parser)
    add_statistics(parser)


def add_curves(parser: argparse.ArgumentParser) -> None:
    """Flags of learning curves, which `report` has too."""
    group = parser.add_argument_group("curves")
    group.add_argument("--x", choices=X_AXES, default="env_steps", help="horizontal axis")
    group.add_argument("--tag", help="tag in metrics.jsonl; what runs are ranked by if not given")
    group.add_argument("--center", choices=("mean", "iqm"), default="mean", help="over seeds")
    group.add_argument("--smooth", type=int, default=1, metavar="N", help="mean over the last N values")


def curve_options(args: argparse.Namespace) -> plots.CurveOptions:
    """What `add_curves` parsed."""
    return plots.CurveOptions(args.x, args.tag, args.center == "iqm", args.smooth)


def execute(args: argparse.Namespace) -> int:
    """Draws what can be drawn, and says what can't."""
    summary = summary_of(args)
    drawn = 0
    for kind in args.kind:
        try:
            figure = plots.draw(kind, summary, curve_options(args))
        except plots.NothingToDrawError as error:
            warn([f"no {kind}: {error}"])
            continue
        for suffix in args.formats:
            path = args.output / f"{kind}.{suffix}"
            buffer = io.BytesIO()
            figure.savefig(buffer, format=suffix)
            write_whole(path, buffer.getvalue())
            sys.stdout.write(f"{path}\n")
        drawn += 1
    return ExitCode.OK if drawn else ExitCode.NOTHING_FOUND

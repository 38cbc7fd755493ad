"""Entry point: `sf plot MASK...` draws learning curves, `sf plot pbt MASK` the lineage of a population.

Seeds of the same configuration become one line with its spread, one panel per environment. Curves are read
and drawn by the benchmark's own code, so that its reports and these pictures agree.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sample_factory.benchmark import figure_style
from sample_factory.benchmark.commands.arguments import write_whole
from sample_factory.benchmark.curve_panels import SPREADS, CurveOptions, draw_panels
from sample_factory.benchmark.curves import AlignedCurves, align, read_curve
from sample_factory.experiments.arguments import add_masks, add_place, chosen, make_parser
from sample_factory.experiments.errors import NOTHING_FOUND, ExperimentsError, run_command
from sample_factory.experiments.files import find_experiments, select
from sample_factory.experiments.grouping import SeedGroup, group_seeds
from sample_factory.experiments.lineage import has_lineage, read_lineage
from sample_factory.experiments.lineage_figure import draw_lineage
from sample_factory.experiments.reading import Experiment, read_experiments

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POPULATION = "pbt"
FORMATS = (".png", ".svg", ".pdf")
_AXES = {"env_steps": "env_steps", "wall_clock": "train_seconds"}


def parser() -> argparse.ArgumentParser:
    """The flags of `sf plot`."""
    made = make_parser("plot", "Learning curves as a picture; `sf plot pbt MASK` draws a population.")
    add_masks(made)
    add_place(made)
    _add_output(made, "curves.png")
    made.add_argument("--x", choices=tuple(_AXES), default="env_steps", help="horizontal axis")
    made.add_argument("--tag", help="tag in metrics.jsonl, for example train/loss; the score if not given")
    made.add_argument("--policy", default="all", help="number of a policy; all count like seeds otherwise")
    made.add_argument(
        "--group_by",
        nargs="+",
        default=[],
        metavar="SETTING",
        help="settings that tell lines apart; none draws every experiment; all that differ if not given",
    )
    made.add_argument("--spread", choices=SPREADS, default="interval", help="what the band shows")
    made.add_argument("--center", choices=("mean", "iqm"), default="mean", help="over seeds")
    made.add_argument("--smooth", type=int, default=1, metavar="N", help="mean over the last N values")
    return made


def population_parser() -> argparse.ArgumentParser:
    """The flags of `sf plot pbt`."""
    made = make_parser("plot pbt", "Who copied whom, when, how good everybody was, and what was tuned.")
    made.add_argument("mask", metavar="EXPERIMENT", help="name of the experiment that trained a population")
    add_place(made)
    _add_output(made, "lineage.png")
    return made


def _add_output(made: argparse.ArgumentParser, name: str) -> None:
    made.add_argument("--output", "-o", type=Path, default=Path(name), help="file; .png, .svg or .pdf")


def draw_curves(experiments: Sequence[Experiment], args: argparse.Namespace) -> Figure:
    """The figure that the flags describe.

    Raises:
        ExperimentsError: no experiment has such values.
        BenchmarkError: matplotlib is missing, or the seeds of a group have no frames in common.
    """
    figure_style.need_matplotlib()
    options = CurveOptions(_AXES[args.x], args.tag, args.center == "iqm", args.smooth, args.spread)
    panels: dict[str, dict[str, AlignedCurves]] = {}
    for group in group_seeds(experiments, args.group_by):
        curves = group_curves(group, options, args.policy)
        if curves is not None:
            label = f"{group.label} ({len(curves.values)})" if len(curves.values) > 1 else group.label
            panels.setdefault(group.env, {})[label] = curves
    if not panels:
        wanted = args.tag or "a score"
        raise ExperimentsError(
            f"None of these experiments has {wanted} yet; train for longer.", NOTHING_FOUND
        )
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    return draw_panels(dict(sorted(panels.items())), labels, options)


def group_curves(group: SeedGroup, options: CurveOptions, policy: str) -> AlignedCurves | None:
    """The curves of a group's experiments and policies on common points; None if there are none."""
    curves = [
        curve
        for experiment in group.members
        for number in _policies(experiment, policy)
        if (curve := read_curve(experiment.path, options.tag, number)) is not None
        and np.isfinite(curve.x(options.axis)).all()
    ]
    return align(curves, options.axis, options.window) if curves else None


def _policies(experiment: Experiment, policy: str) -> Sequence[int]:
    if policy != "all":
        return (int(policy),)
    return range(int(experiment.run.config.get("num_policies") or 1))


def save(figure: Figure, path: Path) -> None:
    """Writes a figure in the format that the file's name asks for.

    Raises:
        ExperimentsError: no such format.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:])
    write_whole(path, buffer.getvalue())
    sys.stdout.write(f"{path}\n")


def _check_output(path: Path) -> None:
    if path.suffix not in FORMATS:
        raise ExperimentsError(f"--output={path} must end in {', '.join(FORMATS)}, for example curves.png.")


def _execute(args: argparse.Namespace) -> int:
    _check_output(args.output)
    if args.policy != "all" and not args.policy.isdecimal():
        raise ExperimentsError(f"--policy={args.policy} is no policy; write a number such as 0, or all.")
    experiments = read_experiments(chosen(args))
    if not experiments:
        raise ExperimentsError(f"There are no experiments in {args.train_dir} yet.", NOTHING_FOUND)
    save(draw_curves(experiments, args), args.output)
    return 0


def _execute_population(args: argparse.Namespace) -> int:
    _check_output(args.output)
    found = select(find_experiments(args.train_dir), [args.mask])
    trained = {name: path for name, path in found.items() if has_lineage(path)} or found
    if len(trained) > 1:
        raise ExperimentsError(
            f"{args.mask} matches {len(trained)} populations; name one, as {min(trained)}."
        )
    name, path = next(iter(trained.items()))
    save(draw_lineage(read_lineage(path), name), args.output)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == [POPULATION]:
        population = population_parser().parse_args(arguments[1:])
        return run_command(lambda: _execute_population(population))
    args = parser().parse_args(arguments)
    return run_command(lambda: _execute(args))


if __name__ == "__main__":
    sys.exit(main())

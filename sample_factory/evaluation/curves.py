"""The learning curve of one experiment as a picture, beside what a random policy scores.

`showcase` and `publish` use it. Curves are read and drawn by the code behind `sf plot`, so that all pictures
of an experiment agree.

Invariant: matplotlib is imported only when a curve is drawn, and a picture appears whole.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

from sample_factory.benchmark import figure_style
from sample_factory.benchmark.curve_panels import CurveOptions, draw_panels
from sample_factory.benchmark.curves import Curve, align, read_curve
from sample_factory.benchmark.errors import BenchmarkError
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.model.durable_files import write_durably


class CurveError(EvaluationError):
    """No curve can be drawn; the message is one sentence for the user."""


def learning_curves(directory: Path, num_policies: int = 1) -> dict[int, Curve]:
    """What each policy of an experiment scored over its frames; nothing for one that has no score yet.

    Raises:
        CurveError: an experiment of another version needs a package that is missing.
    """
    try:
        found = {policy: read_curve(directory, policy=policy) for policy in range(num_policies)}
    except BenchmarkError as error:
        raise CurveError(str(error)) from error
    return {policy: curve for policy, curve in found.items() if curve is not None}


def plot_learning_curve(
    curves: Mapping[int, Curve], output: Path, *, title: str, random_score: float | None = None
) -> Path:
    """Draws the learning curves of an experiment.

    Args:
        curves: by policy, as `learning_curves` gives them.
        output: the PNG file to write.
        title: shown above the curves.
        random_score: a random policy's score, drawn as a dashed line for comparison.

    Raises:
        CurveError: matplotlib is missing, or there is no curve yet.
    """
    if not curves:
        raise CurveError("There is no score yet, so there is no curve to draw; train for longer.")
    try:
        figure_style.need_matplotlib()
    except BenchmarkError as error:
        raise CurveError(str(error)) from error
    lines = {f"policy {policy}": align([curve]) for policy, curve in sorted(curves.items())}
    figure = draw_panels({title: lines}, list(lines), CurveOptions())
    if random_score is not None:
        panel = figure.axes[0]
        panel.axhline(random_score, linestyle="--", color=figure_style.GRAY, label="random policy")
        panel.legend(frameon=False, fontsize=8)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    output.parent.mkdir(parents=True, exist_ok=True)
    write_durably(output, picture.getvalue())
    return output

"""Learning curves as PNG files, drawn from an experiment's `metrics.jsonl`.

`showcase` uses it. One line per policy over frames, with the range of the window around it.

Invariant: matplotlib is imported only when a curve is drawn, and its global state is left alone.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sample_factory.evaluation.errors import EvaluationError
from sample_factory.monitoring.metrics import read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REWARD_TAG = "0_aux/avg_reward"

MISSING_MATPLOTLIB = "Learning curves need matplotlib: pip install 'sample-factory-rebuilt[plot]'"


class CurveError(EvaluationError):
    """No curve can be drawn; the message is one sentence for the user."""


@dataclass
class Curve:
    """One policy's values of a tag over its env steps; `low` and `high` are empty when there is no range."""

    env_steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)


def learning_curves(records: Sequence[dict[str, Any]], tag: str = REWARD_TAG) -> dict[int, Curve]:
    """The curve of each policy, from the records of `read_metrics`."""
    curves: dict[int, Curve] = {}
    for record in records:
        value = record.get(tag)
        if value is None:
            continue
        curve = curves.setdefault(int(record["policy"]), Curve())
        curve.env_steps.append(int(record["env_steps"]))
        curve.values.append(float(value))
        low, high = record.get(f"{tag}_min"), record.get(f"{tag}_max")
        if low is not None and high is not None:
            curve.low.append(float(low))
            curve.high.append(float(high))
    return curves


def plot_learning_curve(
    metrics_path: Path, output: Path, *, title: str, tag: str = REWARD_TAG, random_score: float | None = None
) -> Path:
    """Draws the learning curves of an experiment.

    Args:
        metrics_path: the experiment's `metrics.jsonl`.
        output: the PNG file to write.
        title: shown above the curves.
        tag: which value to draw.
        random_score: a random policy's value, drawn as a dashed line for comparison.

    Raises:
        CurveError: matplotlib is missing, or the metrics hold no such value yet.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise CurveError(MISSING_MATPLOTLIB)
    curves = learning_curves(read_metrics(metrics_path), tag)
    if not curves:
        raise CurveError(f"{metrics_path} has no {tag} yet, so there is no curve to draw; train for longer.")
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for policy_id, curve in sorted(curves.items()):
        _draw(axes, curve, label=f"policy {policy_id}")
    if random_score is not None:
        axes.axhline(random_score, linestyle="--", color="gray", label="random policy")
    axes.set(title=title, xlabel="frames", ylabel="mean episode reward" if tag == REWARD_TAG else tag)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    # Below the axes: inside, it would cover some part of some curve.
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f".{output.stem}.partial.png")
    figure.savefig(partial, format="png")
    partial.replace(output)
    return output


def _draw(axes: Axes, curve: Curve, label: str) -> None:
    # A run that has just begun may have a single point, which a line would not show.
    marker = "o" if len(curve.values) < 20 else None
    (line,) = axes.plot(curve.env_steps, curve.values, label=label, marker=marker, markersize=3)
    if len(curve.low) == len(curve.values):
        band = axes.fill_between(curve.env_steps, curve.low, curve.high, alpha=0.1, linewidth=0)
        band.set(color=line.get_color(), label=f"{label}: lowest to highest episode")

"""Figures of a summary: curves, aggregates, profiles, improvement, efficiency, throughput.

`plot` saves them, `html_report` embeds them. Every algorithm has one colour in all figures; bands and bars
are the bootstrap intervals of the tables.

Invariant: matplotlib is imported when a figure is drawn, never before, and its global state is left alone.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from sample_factory.benchmark import figure_style as style
from sample_factory.benchmark.curve_panels import CurveOptions, draw_panels
from sample_factory.benchmark.curves import AlignedCurves, align, read_curve
from sample_factory.benchmark.errors import BenchmarkError
from sample_factory.benchmark.statistics.aggregates import performance_profile
from sample_factory.benchmark.statistics.bootstrap import band, interval
from sample_factory.benchmark.statistics.improvement import probability_of_improvement
from sample_factory.benchmark.summary import Cell, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_THRESHOLDS = 101


class NothingToDrawError(BenchmarkError):
    """The runs hold no data for a figure; the message says which data is missing."""


def draw(kind: str, summary: Summary, options: CurveOptions | None = None) -> Figure:
    """One of the figures in `KINDS`.

    Raises:
        BenchmarkError: matplotlib is missing.
        NothingToDrawError: the runs lack the data.
    """
    style.need_matplotlib()
    return KINDS[kind](summary, options or CurveOptions())


def to_svg(figure: Figure) -> str:
    """The figure as an `<svg>` element."""
    import matplotlib

    buffer = io.StringIO()
    # Text stays text: it can be selected and searched, and the file is smaller. No date: same data, same
    # file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "sample_factory"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def draw_curves(summary: Summary, options: CurveOptions) -> Figure:
    """Learning curves, one panel per environment."""
    panels: dict[str, dict[str, AlignedCurves]] = {}
    for env in summary.envs:
        cells = [cell for cell in summary.cells if cell.env == env]
        lines = {cell.algo: curves for cell in cells if (curves := cell_curves(cell, options)) is not None}
        if lines:
            panels[env] = lines
    if not panels:
        raise NothingToDrawError("no run has a metrics.jsonl with learning curves.")
    return draw_panels(panels, summary.algos, replace(options, bootstrap=summary.options.bootstrap))


def draw_efficiency(summary: Summary, options: CurveOptions) -> Figure:
    """Learning curves over wall-clock time."""
    return draw_curves(summary, replace(options, axis="train_seconds"))


def draw_aggregates(summary: Summary, _options: CurveOptions) -> Figure:
    """Mean, median, IQM and optimality gap of each algorithm with intervals, one panel per metric."""
    entries = summary.aggregates[summary.algos[0]]
    if not entries:
        raise NothingToDrawError(
            "scores of several environments have no common scale; pass --normalize=minmax."
        )
    height = 1.2 + 0.42 * len(summary.algos)
    figure, panels = style.grid(len(entries), columns=len(entries), panel=(2.6, height))
    for column, panel in enumerate(panels):
        for row, algo in enumerate(summary.algos):
            if summary.aggregates[algo]:
                entry = summary.aggregates[algo][column]
                _bar(
                    panel, row, entry.value, (entry.interval.low, entry.interval.high), _colour(summary, algo)
                )
        _rows(panel, summary.algos if column == 0 else [""] * len(summary.algos))
        metric = entries[column].metric
        better = "lower is better" if metric == "Optimality gap" else "higher is better"
        style.label(panel, title=metric, xlabel=f"{_score_name(summary)}, {better}")
    return figure


def draw_profile(summary: Summary, _options: CurveOptions) -> Figure:
    """Share of runs above each score, per algorithm."""
    tasks = {algo: summary.tasks(algo) for algo in summary.algos}
    if not summary.references.is_normalized and len(summary.envs) > 1:
        raise NothingToDrawError(
            "scores of several environments have no common scale; pass --normalize=minmax."
        )
    everything = np.concatenate([task for per_algo in tasks.values() for task in per_algo])
    margin = 0.05 * (float(np.ptp(everything)) or 1.0)
    thresholds = np.linspace(everything.min() - margin, everything.max() + margin, _THRESHOLDS)
    figure, (panel,) = style.grid(1, panel=(6.0, 3.6))
    for algo, per_algo in tasks.items():
        colour = _colour(summary, algo)
        panel.plot(
            thresholds, performance_profile(per_algo, thresholds), color=colour, drawstyle="steps-post"
        )
        if all(task.shape[-1] > 1 for task in per_algo):
            low, high = band(
                lambda resampled: performance_profile(resampled, thresholds),
                per_algo,
                settings=summary.options.bootstrap,
            )
            panel.fill_between(thresholds, low, high, step="post", color=colour, alpha=0.15, linewidth=0)
    style.label(panel, xlabel=f"{_score_name(summary)} τ", ylabel="share of runs with score > τ")
    panel.set_ylim(-0.02, 1.02)
    style.legend(figure, summary.algos)
    return figure


def draw_improvement(summary: Summary, _options: CurveOptions) -> Figure:
    """Probability of improvement for every pair of algorithms with environments in common."""
    pairs = [pair for pair in combinations(summary.algos, 2) if _shared(summary, *pair)]
    if not pairs:
        raise NothingToDrawError(
            "the probability of improvement needs two algorithms on the same environment."
        )
    figure, (panel,) = style.grid(1, panel=(6.0, 1.2 + 0.42 * len(pairs)))
    for row, (first, second) in enumerate(pairs):
        envs = _shared(summary, first, second)
        x, y = (
            [cell.scores for env in envs if (cell := summary.cell(algo, env)) is not None]
            for algo in (first, second)
        )
        bounds = interval(probability_of_improvement, x, y, settings=summary.options.bootstrap)
        value = float(probability_of_improvement(x, y))
        _bar(panel, row, value, (bounds.low, bounds.high), _colour(summary, first))
    _rows(panel, [f"{first} > {second}" for first, second in pairs])
    panel.axvline(0.5, color=style.GRAY, linewidth=1, linestyle="--")
    panel.set_xlim(-0.02, 1.02)
    style.label(panel, xlabel="probability that a run of the first beats one of the second")
    return figure


def draw_throughput(summary: Summary, _options: CurveOptions) -> Figure:
    """Frames per second of every run, by environment."""
    cells = [cell for cell in summary.cells if cell.fps is not None]
    if not cells:
        raise NothingToDrawError("no run has recorded its frames per second.")
    envs = [env for env in summary.envs if any(cell.env == env for cell in cells)]
    figure, (panel,) = style.grid(1, panel=(6.0, 1.2 + 0.36 * len(envs)))
    spread = 0.6 / len(summary.algos)
    for cell in cells:
        row = envs.index(cell.env) + (summary.algos.index(cell.algo) - (len(summary.algos) - 1) / 2) * spread
        colour = _colour(summary, cell.algo)
        speeds = [run.fps for run in cell.runs if run.fps is not None]
        panel.plot(speeds, [row] * len(speeds), "o", color=colour, alpha=0.35, markersize=4)
        panel.plot([float(np.mean(speeds))], [row], "|", color=colour, markersize=12, markeredgewidth=2.5)
    _rows(panel, envs)
    panel.set_xlim(left=0)
    panel.xaxis.set_major_formatter(style.engineering())
    style.label(panel, xlabel="frames per second (each run, and their mean)")
    style.legend(figure, summary.algos)
    return figure


KINDS: dict[str, Callable[[Summary, CurveOptions], Any]] = {
    "curves": draw_curves,
    "aggregate": draw_aggregates,
    "profile": draw_profile,
    "poi": draw_improvement,
    "efficiency": draw_efficiency,
    "throughput": draw_throughput,
}


def cell_curves(cell: Cell, options: CurveOptions) -> AlignedCurves | None:
    """The curves of a cell's runs on common points; None if no run has one."""
    curves = [curve for run in cell.runs if (curve := read_curve(run.path, options.tag)) is not None]
    # Records of other programs may know no times.
    curves = [curve for curve in curves if np.isfinite(curve.x(options.axis)).all()]
    if not curves:
        return None
    try:
        return align(curves, options.axis, options.window)
    except BenchmarkError as error:
        raise NothingToDrawError(f"{cell.algo} on {cell.env}: {error}") from error


def _bar(panel: Axes, row: int, value: float, bounds: tuple[float, float], colour: str) -> None:
    if all(math.isfinite(bound) for bound in bounds):
        panel.barh(row, bounds[1] - bounds[0], left=bounds[0], height=0.55, color=colour, alpha=0.3)
    panel.plot([value, value], [row - 0.275, row + 0.275], color=colour, linewidth=2)


def _rows(panel: Axes, names: Sequence[str]) -> None:
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.grid(axis="y", visible=False)


def _colour(summary: Summary, algo: str) -> str:
    return style.colour(summary.algos, algo)


def _score_name(summary: Summary) -> str:
    return "normalized score" if summary.references.is_normalized else "score"


def _shared(summary: Summary, first: str, second: str) -> list[str]:
    return [env for env in summary.envs if summary.cell(first, env) and summary.cell(second, env)]

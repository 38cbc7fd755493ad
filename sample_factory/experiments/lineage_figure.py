"""The picture of a population: a lane per policy with copies and mutations, objectives, tuned settings.

`sf plot pbt` saves it. Time runs to the right in all panels, because a copy happens at one time for both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sample_factory.benchmark import figure_style as style
from sample_factory.experiments.lineage import Lineage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LONG_SEC = 3 * 3600.0
_COLUMNS = 2
_WIDTH = 10.0
_LOG_RATIO = 20.0
_COPY_COLOUR = "#D55E00"


def draw_lineage(lineage: Lineage, title: str) -> Figure:
    """The whole figure.

    Raises:
        BenchmarkError: matplotlib is missing.
    """
    style.need_matplotlib()
    from matplotlib.figure import Figure

    names = lineage.tuned_names()
    rows = math.ceil(len(names) / _COLUMNS)
    heights = [0.9 + 0.42 * lineage.num_policies, 2.6, *[2.0] * rows]
    figure = Figure(figsize=(_WIDTH, sum(heights) + 0.8), dpi=150, layout="constrained")
    grid = figure.add_gridspec(2 + rows, _COLUMNS, height_ratios=heights)
    time = _TimeAxis(lineage)
    lanes = figure.add_subplot(grid[0, :])
    _draw_lanes(figure, lanes, lineage, time)
    copies = len(lineage.copies)
    style.label(lanes, title=f"{title}: {copies} copies (arrows), mutations (diamonds)", xlabel=time.name)
    objective = figure.add_subplot(grid[1, :], sharex=lanes)
    _draw_histories(objective, [lineage.objective_history(p) for p in range(lineage.num_policies)], time)
    style.label(objective, title="objective", xlabel=time.name)
    for number, name in enumerate(names):
        panel = figure.add_subplot(grid[2 + number // _COLUMNS, number % _COLUMNS], sharex=lanes)
        histories = [lineage.history(name, policy) for policy in range(lineage.num_policies)]
        _draw_histories(panel, histories, time, stepped=True)
        values = [value for history in histories for _, value in history]
        if min(values) > 0 and max(values) > _LOG_RATIO * min(values):
            panel.set_yscale("log")
        style.label(panel, title=name, xlabel=time.name)
    style.legend(figure, _labels(lineage), columns=8)
    return figure


class _TimeAxis:
    """Unix times as minutes or hours since the start."""

    def __init__(self, lineage: Lineage) -> None:
        self._start = lineage.start
        self.end_time = lineage.events[-1].time
        is_long = self.end_time - lineage.start > _LONG_SEC
        self._unit = 3600.0 if is_long else 60.0
        self.name = "hours" if is_long else "minutes"

    def __call__(self, unix_time: float) -> float:
        return (unix_time - self._start) / self._unit


def _labels(lineage: Lineage) -> list[str]:
    return [f"policy {policy}" for policy in range(lineage.num_policies)]


def _draw_lanes(figure: Figure, panel: Axes, lineage: Lineage, time: _TimeAxis) -> None:
    from matplotlib.collections import LineCollection

    style.plain(panel)
    segments, values = [], []
    for policy in range(lineage.num_policies):
        history = lineage.objective_history(policy)
        for (start, value), (end, _) in zip(history, [*history[1:], (time.end_time, 0.0)], strict=True):
            segments.append([(time(start), policy), (time(end), policy)])
            values.append(value)
        if history:
            before = [time(lineage.start), time(history[0][0])]
            panel.plot(before, [policy, policy], color="#dddddd", linewidth=3)
    lanes = LineCollection(segments, array=values, cmap="viridis", linewidths=5, capstyle="butt")
    panel.add_collection(lanes)
    figure.colorbar(lanes, ax=panel, label="objective", pad=0.01)
    for event in lineage.events:
        x = time(event.time)
        if event.donor is not None:
            arrow = {"arrowstyle": "-|>", "color": _COPY_COLOUR, "linewidth": 1.4, "shrinkB": 3}
            panel.annotate("", xy=(x, event.policy), xytext=(x, event.donor), arrowprops=arrow)
        elif event.kind == "mutated":
            panel.plot([x], [event.policy], "D", color="white", markeredgecolor="#333333", markersize=4)
    panel.set_yticks(range(lineage.num_policies), _labels(lineage))
    panel.set_ylim(lineage.num_policies - 0.4, -0.6)
    panel.grid(axis="y", visible=False)


def _draw_histories(
    panel: Axes, histories: Sequence[Sequence[tuple[float, float]]], time: _TimeAxis, *, stepped: bool = False
) -> None:
    style.plain(panel)
    labels = [f"policy {policy}" for policy in range(len(histories))]
    for label, history in zip(labels, histories, strict=True):
        if not history:
            continue
        points = [*history, (time.end_time, history[-1][1])]
        panel.plot(
            [time(moment) for moment, _ in points],
            [value for _, value in points],
            color=style.colour(labels, label),
            drawstyle="steps-post" if stepped else "default",
            linewidth=1.6,
        )

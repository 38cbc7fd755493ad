"""Figures of a study: its history, the importance of settings, and the settings of good and bad trials.

`report` puts them into its page. Invariant: matplotlib is imported when a figure is drawn, never before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sample_factory.benchmark.plots import to_svg
from sample_factory.tune.space import Parameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from optuna.trial import FrozenTrial

_BLUE, _ORANGE, _GRAY = "#0072B2", "#D55E00", "#888888"


def history(trials: Sequence[FrozenTrial], maximize: bool) -> str:
    """The value of every trial, and the best so far."""
    panel, svg = _panel(6.4, 3.2)
    complete = [trial for trial in trials if trial.state.name == "COMPLETE"]
    numbers = [trial.number for trial in complete]
    values = np.array([trial.value for trial in complete], dtype=np.float64)
    panel.plot(numbers, values, "o", color=_BLUE, markersize=4, label="trial")
    best = np.maximum.accumulate(values) if maximize else np.minimum.accumulate(values)
    panel.plot(numbers, best, color=_ORANGE, drawstyle="steps-post", label="best so far")
    pruned = [trial for trial in trials if trial.state.name == "PRUNED" and trial.value is not None]
    if pruned:
        seen = np.array([[trial.number, trial.value] for trial in pruned], dtype=np.float64)
        panel.plot(seen[:, 0], seen[:, 1], "x", color=_GRAY, markersize=5, label="pruned")
    panel.set_xlabel("trial")
    panel.set_ylabel("value")
    panel.legend(frameon=False, fontsize=8)
    return svg()


def importance_bars(importances: Mapping[str, float]) -> str:
    """How much each setting decides."""
    panel, svg = _panel(6.4, 0.9 + 0.34 * len(importances))
    names, shares = list(importances), list(importances.values())
    panel.barh(range(len(names)), shares, height=0.6, color=_BLUE)
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    panel.set_xlabel("share of importance")
    return svg()


def parallel_coordinates(
    trials: Sequence[FrozenTrial], parameters: Sequence[Parameter], maximize: bool
) -> str:
    """One line per complete trial over all its settings; the darker, the better."""
    panel, svg = _panel(max(6.4, 1.25 * len(parameters)), 3.6)
    complete = [trial for trial in trials if trial.state.name == "COMPLETE" and trial.value is not None]
    ranked = sorted(complete, key=lambda trial: trial.value or 0.0, reverse=not maximize)
    for rank, trial in enumerate(ranked):
        places = [
            (column, _position(parameter, trial.params[parameter.name]))
            for column, parameter in enumerate(parameters)
            if parameter.name in trial.params
        ]
        if places:
            share = (rank + 1) / len(ranked)
            colour = _ORANGE if trial is ranked[-1] else _BLUE
            panel.plot(*zip(*places, strict=True), color=colour, alpha=0.08 + 0.8 * share**3, linewidth=1.2)
    for column, parameter in enumerate(parameters):
        for place, text in _ticks(parameter):
            panel.text(column, place, f" {text}", fontsize=7, va="center", color="#333333")
    panel.set_xticks(range(len(parameters)), [item.name for item in parameters], rotation=20, fontsize=8)
    panel.set_yticks([])
    panel.grid(axis="x", alpha=0.4)
    return svg()


def _position(parameter: Parameter, value: Any) -> float:
    """Where on its axis, from 0 to 1, a value is."""
    if parameter.kind == "choice":
        return parameter.values.index(value) / max(1, len(parameter.values) - 1)
    ends = np.array([parameter.low, parameter.high, value], dtype=np.float64)
    low, high, place = np.log(ends) if parameter.log else ends
    return float((place - low) / (high - low))


def _ticks(parameter: Parameter) -> list[tuple[float, str]]:
    values = parameter.values if parameter.kind == "choice" else (parameter.low, parameter.high)
    return [
        (_position(parameter, value), f"{value:g}" if isinstance(value, float) else str(value))
        for value in values
    ]


def _panel(width: float, height: float) -> tuple[Axes, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    panel = figure.subplots()
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=8)
    return panel, lambda: to_svg(figure)

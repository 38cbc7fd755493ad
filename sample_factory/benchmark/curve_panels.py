"""Learning curves in panels: one line per group of runs, with what its runs spread over.

`benchmark plot` and `report` draw the runs of a summary with it, `sf plot` any experiments.

Invariant: a group's line is drawn only where all of its runs have values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from sample_factory.benchmark import figure_style as style
from sample_factory.benchmark.curves import AlignedCurves
from sample_factory.benchmark.statistics.bootstrap import Bootstrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SPREADS = ("interval", "std", "range", "seeds", "none")
_LONG_SEC = 3 * 3600.0
_SINGLE_PANEL = (7.0, 4.2)
_CURVE_REPS = 300  # a band of 200 points needs no 2000 replicates to look the same


@dataclass(frozen=True)
class CurveOptions:
    """How curves are drawn.

    Attributes:
        axis: "env_steps" or "train_seconds".
        tag: which values; None takes what runs are ranked by.
        use_iqm: the IQM over seeds instead of the mean.
        window: smoothing; 1 is none.
        spread: what the band around a line shows, one of `SPREADS`.
        bootstrap: how intervals are computed.
    """

    axis: str = "env_steps"
    tag: str | None = None
    use_iqm: bool = False
    window: int = 1
    spread: str = "interval"
    bootstrap: Bootstrap = field(default_factory=Bootstrap)


def draw_panels(
    panels: Mapping[str, Mapping[str, AlignedCurves]], labels: Sequence[str], options: CurveOptions
) -> Figure:
    """A figure with a panel per title, and in it a line per label.

    Args:
        panels: curves by title and label, at least one.
        labels: all labels in the order of their colours.
        options: how to draw.
    """
    unit = _x_unit((curves for lines in panels.values() for curves in lines.values()), options.axis)
    size = _SINGLE_PANEL if len(panels) == 1 else style.PANEL
    figure, axes = style.grid(len(panels), columns=2 if len(panels) == 4 else 3, panel=size)
    for panel, (title, lines) in zip(axes, panels.items(), strict=True):
        for label in labels:
            if label in lines:
                _draw_line(panel, lines[label].scaled(unit.size), style.colour(labels, label), options)
        style.label(panel, title=title, xlabel=unit.name)
        if unit.size == 1.0:
            panel.xaxis.set_major_formatter(style.engineering())
    axes[0].set_ylabel(options.tag or "episode reward")
    style.legend(figure, labels)
    return figure


class _Unit(NamedTuple):
    name: str
    size: float


def _x_unit(curves: Iterable[AlignedCurves], axis: str) -> _Unit:
    if axis == "env_steps":
        return _Unit("frames", 1.0)
    longest = max(float(curve.x[-1]) for curve in curves)
    return _Unit("hours", 3600.0) if longest > _LONG_SEC else _Unit("minutes", 60.0)


def _draw_line(panel: Axes, curves: AlignedCurves, colour: str, options: CurveOptions) -> None:
    # A run that has just begun may have a single point, which a line would not show.
    marker = "o" if len(curves.x) == 1 else None
    panel.plot(curves.x, curves.iqm if options.use_iqm else curves.mean, color=colour, marker=marker)
    if options.spread == "seeds" and len(curves.values) > 1:
        panel.plot(curves.x, curves.values.T, color=colour, alpha=0.3, linewidth=0.8)
        return
    reps = min(options.bootstrap.reps, _CURVE_REPS)
    bounds = curves.spread(options.spread, replace(options.bootstrap, reps=reps), use_iqm=options.use_iqm)
    if bounds is not None:
        panel.fill_between(curves.x, *bounds, color=colour, alpha=0.15, linewidth=0)

"""How all figures look: panels, labels, legends and colours.

`plots` and `curve_panels` draw with it.

Invariant: matplotlib is imported when a figure is made, never before, and its global state is left alone.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sample_factory.benchmark.errors import BenchmarkError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MISSING_MATPLOTLIB = "Plots need matplotlib: pip install 'sample-factory-rebuilt[plot]'"
GRAY = "#888888"
PANEL = (4.2, 3.0)
_LETTERS_PER_INCH = 14  # of the legend
_LETTERS_OF_A_KEY = 6

# Okabe and Ito's colours, which people with colour blindness tell apart; black is for more.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B8A800")


def need_matplotlib() -> None:
    """Makes sure that figures can be drawn.

    Raises:
        BenchmarkError: they can't.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise BenchmarkError(MISSING_MATPLOTLIB)


def colour(labels: Sequence[str], label: str) -> str:
    """The colour that a label has wherever these labels are drawn."""
    return _COLOURS[labels.index(label) % len(_COLOURS)]


def grid(count: int, columns: int = 3, panel: tuple[float, float] = PANEL) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels."""
    from matplotlib.figure import Figure

    columns = min(count, columns)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(panel[0] * columns, panel[1] * rows), dpi=150, layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in panels[count:]:
        unused.set_visible(False)
    for used in panels[:count]:
        plain(used)
    return figure, panels[:count]


def plain(panel: Axes) -> None:
    """A quiet grid and no frame."""
    panel.grid(alpha=0.25)
    panel.use_sticky_edges = False  # bars would touch the axis
    panel.spines[["top", "right"]].set_visible(False)


def label(panel: Axes, title: str = "", xlabel: str = "", ylabel: str = "") -> None:
    """Title and axes of a panel."""
    panel.set_title(title, fontsize=11)
    panel.set_xlabel(xlabel, fontsize=9)
    if ylabel:
        panel.set_ylabel(ylabel, fontsize=9)
    panel.tick_params(labelsize=8)


def legend(figure: Figure, labels: Sequence[str], columns: int = 4) -> None:
    """What the colours mean, above all panels; one label needs no legend."""
    if len(labels) == 1:
        return
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=colour(labels, name), linewidth=2) for name in labels]
    room = _LETTERS_PER_INCH * figure.get_figwidth() / (max(map(len, labels)) + _LETTERS_OF_A_KEY)
    columns = max(1, min(columns, len(lines), int(room)))
    figure.legend(lines, labels, loc="outside upper center", ncols=columns, frameon=False, fontsize=9)


def engineering() -> Any:
    """Numbers such as 20k and 1M on an axis."""
    from matplotlib.ticker import EngFormatter

    return EngFormatter(sep="")

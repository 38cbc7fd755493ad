"""What all pages of the dashboard have in common: the frame around them, tiles, charts, states.

Pages are rendered here so that they are complete without a script; the scripts draw curves and keep numbers
current.

Invariant: text of experiments reaches a page through `element` only; no inline script, no inline style.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote

from sample_factory.benchmark.run_record import RunStatus
from sample_factory.experiments.dashboard.markup import Markup, document, element, joined
from sample_factory.experiments.reading import TROUBLED, Experiment

_SCRIPTS = ("chart.js", "lineage.js", "dashboard.js")
_TONES: dict[str, str] = {
    RunStatus.RUNNING: "live",
    RunStatus.COMPLETED: "good",
    RunStatus.QUEUED: "calm",
    RunStatus.INTERRUPTED: "calm",
    RunStatus.TIMEOUT: "calm",
}


def page(title: str, train_dir: str, *content: Markup | None) -> str:
    """A whole page around some content."""
    head = joined(
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} · Sample Factory"),
        element("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        element("link", rel="stylesheet", href="/static/dashboard.css"),
        [element("script", src=f"/static/{name}", defer=True) for name in _SCRIPTS],
    )
    brand = element(
        "a",
        element("img", src="/static/icon.svg", alt="", width="26", height="26"),
        "Sample Factory",
        href="/",
        class_="brand",
    )
    header = element(
        "header",
        brand,
        element("span", train_dir, class_="place"),
        element("span", class_="spacer"),
        element("span", "connecting", id="pulse", class_="pulse", title="how fresh the numbers are"),
        element("button", "Theme", id="theme", type="button", title="light, dark, or as the system says"),
    )
    return document(head, joined(header, element("main", *content)))


def message_page(train_dir: str, title: str, sentence: str) -> str:
    """A page that says one thing."""
    back = element("p", element("a", "All experiments", href="/"))
    return page(title, train_dir, element("h1", title), element("p", sentence, class_="empty"), back)


def experiment_url(name: str) -> str:
    """Where an experiment's page is."""
    return f"/experiment/{quote(name)}"


def tile(
    label: str, value: str, note: str, key: str, *, bad: bool = False, extra: Markup | None = None
) -> Markup:
    """A number with its name and a remark."""
    return element(
        "div",
        element("span", label, class_="label"),
        element("strong", value, data_live=key),
        extra,
        element("span", note, class_="note", data_live=f"{key}-note"),
        class_="tile bad" if bad else "tile",
    )


def bar(experiment: Experiment) -> Markup | None:
    """How far an experiment is."""
    if experiment.progress is None:
        return None
    return element(
        "progress", value=f"{experiment.progress:.4f}", max="1", title=f"{experiment.progress:.0%}"
    )


def tone(experiment: Experiment) -> str:
    """Which colour a state has."""
    return "bad" if experiment.status in TROUBLED else _TONES.get(experiment.status, "calm")


def charts(experiments: Sequence[Experiment], tags: Sequence[str]) -> Markup:
    """The charts that the script fills with the curves of some experiments."""
    names = [experiment.name for experiment in experiments]
    add = element(
        "select",
        element("option", "Add a chart…", value=""),
        [element("option", tag, value=tag) for tag in tags],
        id="add-chart",
        aria_label="add a chart",
    )
    tools = element(
        "div",
        element("h2", "Curves"),
        element("span", class_="spacer"),
        element(
            "span",
            element("button", "Frames", type="button", class_="chip on", data_axis="steps"),
            element("button", "Time", type="button", class_="chip", data_axis="seconds"),
            class_="chips",
        ),
        element(
            "label",
            "Smooth ",
            element("input", type="range", id="smooth", min="0", max="0.98", step="0.02", value="0"),
        ),
        add,
        class_="toolbar",
    )
    return element(
        "section",
        tools,
        element("div", class_="charts", id="charts", data_experiments=json.dumps(names)),
        element("noscript", element("p", "Curves are drawn by a script; `sf plot` draws them into a file.")),
    )

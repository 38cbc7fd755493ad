"""The dashboard's first page: all experiments in a table, what runs on top."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from sample_factory.benchmark import number_format as text
from sample_factory.experiments.dashboard.layout import bar, experiment_url, page, tile, tone
from sample_factory.experiments.dashboard.library import Library
from sample_factory.experiments.dashboard.markup import Markup, element
from sample_factory.experiments.ls import ago, readable_size, short_score
from sample_factory.experiments.reading import TROUBLED, Experiment

_COLUMNS = (
    ("", "pick"),
    ("Experiment", "name"),
    ("Environment", "env"),
    ("Frames", "frames"),
    ("Learning", "spark"),
    ("Score", "score"),
    ("Best", "best"),
    ("FPS", "fps"),
    ("Left", "left"),
    ("Active", "active"),
    ("Size", "size"),
)


def index_page(library: Library) -> str:
    """The list of all experiments."""
    experiments = library.experiments()
    if not experiments:
        return page("Experiments", str(library.train_dir), _nothing(library))
    rows = sorted(experiments, key=lambda e: (not e.is_running, -e.active))
    head = element(
        "tr",
        [
            element("th", title, data_sort=key if key not in ("pick", "spark") else None)
            for title, key in _COLUMNS
        ],
    )
    table = element(
        "table",
        element("thead", head),
        element("tbody", [_row(experiment) for experiment in rows]),
        id="experiments",
    )
    form = element(
        "form",
        _toolbar(experiments),
        element("div", table, class_="scroll"),
        element("p", "Nothing matches.", id="no-match", class_="empty", hidden=True),
        action="/compare",
        method="get",
    )
    return page("Experiments", str(library.train_dir), _tiles(experiments), form)


def _nothing(library: Library) -> Markup:
    command = "sf train --env=gym_CartPole-v1 --algo=APPO --experiment=first"
    return element(
        "section",
        element("h1", "No experiments yet"),
        element("p", f"Nothing in {library.train_dir} has been trained. This starts something:"),
        element("pre", command),
        class_="card",
    )


def _tiles(experiments: Sequence[Experiment]) -> Markup:
    running = [experiment for experiment in experiments if experiment.is_running]
    troubled = sum(experiment.status in TROUBLED for experiment in experiments)
    speed = sum(experiment.fps or 0.0 for experiment in running)
    frames = sum(experiment.frames or 0 for experiment in experiments)
    size = sum(experiment.size_bytes for experiment in experiments)
    return element(
        "section",
        tile("Running", str(len(running)), f"of {len(experiments)} experiments", "running"),
        tile("Frames per second", text.count(speed) if running else "–", "all that run together", "speed"),
        tile("Frames seen", text.count(frames), f"{readable_size(size)} on disk", "frames"),
        tile("In trouble", str(troubled), "failed, or gone without a word", "troubled", bad=troubled > 0),
        class_="tiles",
        id="overview",
    )


def _toolbar(experiments: Sequence[Experiment]) -> Markup:
    states = sorted({str(experiment.status) for experiment in experiments})
    chips = [element("button", "All", type="button", class_="chip on", data_state="")]
    chips += [
        element("button", state.capitalize(), type="button", class_="chip", data_state=state)
        for state in states
    ]
    return element(
        "div",
        element(
            "input",
            type="search",
            id="filter",
            placeholder="Filter by name or environment",
            autocomplete="off",
        ),
        element("span", chips, class_="chips"),
        element("span", class_="spacer"),
        element("button", "Compare", type="submit", id="compare", class_="primary"),
        class_="toolbar",
    )


def _row(experiment: Experiment) -> Markup:
    name = experiment.name
    folder, _, last = name.rpartition("/")
    link = element(
        "a",
        element("span", f"{folder}/", class_="folder") if folder else None,
        last,
        href=experiment_url(name),
    )
    why = element("span", Library.blank(experiment.problem), class_="why") if experiment.problem else None
    pick = element("input", type="checkbox", name="e", value=name, aria_label=f"compare {name}")
    cells = (
        element("td", pick),
        element("td", _dot(experiment), link, why, class_="name"),
        element("td", experiment.run.env),
        element("td", bar(experiment), text.count(experiment.frames), class_="number", data_live="frames"),
        element("td", class_="spark", data_spark=name),
        element("td", short_score(experiment.score), class_="number", data_live="score"),
        element("td", short_score(experiment.best_score), class_="number", data_live="best"),
        element("td", text.count(experiment.fps), class_="number", data_live="fps"),
        element("td", _left(experiment), class_="number", data_live="left"),
        element(
            "td",
            "now" if experiment.is_running else ago(experiment, time.time()),
            class_="number",
            data_live="active",
        ),
        element("td", readable_size(experiment.size_bytes), class_="number"),
    )
    return element(
        "tr",
        cells,
        data_name=name,
        data_state=str(experiment.status),
        data_values=json.dumps(_sort_values(experiment)),
    )


def _sort_values(experiment: Experiment) -> dict[str, Any]:
    return {
        "name": experiment.name,
        "env": experiment.run.env,
        "frames": experiment.frames,
        "score": experiment.score,
        "best": experiment.best_score,
        "fps": experiment.fps,
        "left": experiment.left_sec,
        "active": experiment.active,
        "size": experiment.size_bytes,
    }


def _left(experiment: Experiment) -> str:
    return text.duration(experiment.left_sec) if experiment.left_sec is not None else "–"


def _dot(experiment: Experiment) -> Markup:
    return element("span", class_=f"dot {tone(experiment)}", title=str(experiment.status), data_live="dot")

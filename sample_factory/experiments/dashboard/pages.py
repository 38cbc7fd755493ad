"""The dashboard's pages: the list, one experiment, several compared.

Rendered here so that they are complete without a script; the scripts draw curves and keep numbers current.

Invariant: text of experiments reaches the page through `element` only; no inline script, no inline style.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from sample_factory.benchmark import number_format as text
from sample_factory.benchmark.run_record import RunStatus
from sample_factory.experiments.dashboard.library import Library
from sample_factory.experiments.dashboard.markup import Markup, document, element, joined
from sample_factory.experiments.files import VIDEO_SUFFIXES
from sample_factory.experiments.lineage import has_lineage
from sample_factory.experiments.ls import readable_size, short_score
from sample_factory.experiments.reading import TROUBLED, Experiment

_SCRIPTS = ("chart.js", "lineage.js", "dashboard.js")
_TONES: dict[str, str] = {
    RunStatus.RUNNING: "live",
    RunStatus.COMPLETED: "good",
    RunStatus.QUEUED: "calm",
    RunStatus.INTERRUPTED: "calm",
    RunStatus.TIMEOUT: "calm",
}
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


def experiment_page(library: Library, experiment: Experiment) -> str:
    """Everything about one experiment."""
    run = experiment.run
    seed = f"seed {run.seed}" if run.seed is not None else "no seed"
    started = _when(experiment.started)
    title = element(
        "div",
        element("p", element("a", "Experiments", href="/"), " / ", class_="crumbs"),
        element("h1", experiment.name, " ", _pill(experiment)),
        element("p", f"{run.env} · {run.algo} · {seed}{started}", class_="sub"),
        class_="title",
    )
    return page(
        experiment.name,
        str(library.train_dir),
        title,
        _facts(library, experiment),
        _problem(library, experiment),
        _verdict(library, experiment),
        _charts(library, [experiment], library.tags(experiment)),
        _lineage(experiment),
        _media(library, experiment),
        _commands(library, experiment),
        _settings(library, experiment),
        _log(library, experiment),
    )


def compare_page(library: Library, experiments: Sequence[Experiment]) -> str:
    """The curves of several experiments in the same charts."""
    if not experiments:
        hint = element("p", "Tick experiments in the list, then press Compare.", class_="empty")
        return page("Compare", str(library.train_dir), element("h1", "Compare"), hint)
    title = element(
        "div",
        element("p", element("a", "Experiments", href="/"), " / ", class_="crumbs"),
        element("h1", f"Compare {len(experiments)} experiments"),
        class_="title",
    )
    tags = sorted(set().union(*(library.tags(experiment) for experiment in experiments)))
    typed = [library.settings(experiment)[0] for experiment in experiments]
    return page(
        "Compare",
        str(library.train_dir),
        title,
        _charts(library, experiments, tags),
        _differences(experiments, typed),
    )


def message_page(train_dir: str, title: str, sentence: str) -> str:
    """A page that says one thing."""
    back = element("p", element("a", "All experiments", href="/"))
    return page(title, train_dir, element("h1", title), element("p", sentence, class_="empty"), back)


def experiment_url(name: str) -> str:
    """Where an experiment's page is."""
    return f"/experiment/{quote(name)}"


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
        _tile("Running", str(len(running)), f"of {len(experiments)} experiments", "running"),
        _tile("Frames per second", text.count(speed) if running else "–", "all that run together", "speed"),
        _tile("Frames seen", text.count(frames), f"{readable_size(size)} on disk", "frames"),
        _tile("In trouble", str(troubled), "failed, or gone without a word", "troubled", bad=troubled > 0),
        class_="tiles",
        id="overview",
    )


def _tile(
    label: str, value: str, note: str, key: str, *, bad: bool = False, extra: Markup | None = None
) -> Markup:
    return element(
        "div",
        element("span", label, class_="label"),
        element("strong", value, data_live=key),
        extra,
        element("span", note, class_="note", data_live=f"{key}-note"),
        class_="tile bad" if bad else "tile",
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
        element("td", _bar(experiment), text.count(experiment.frames), class_="number", data_live="frames"),
        element("td", class_="spark", data_spark=name),
        element("td", short_score(experiment.score), class_="number", data_live="score"),
        element("td", short_score(experiment.best_score), class_="number", data_live="best"),
        element("td", text.count(experiment.fps), class_="number", data_live="fps"),
        element("td", _left(experiment), class_="number", data_live="left"),
        element("td", _ago(experiment), class_="number", data_live="active"),
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


def _ago(experiment: Experiment) -> str:
    return (
        "now" if experiment.is_running else f"{text.duration(max(0.0, time.time() - experiment.active))} ago"
    )


def _bar(experiment: Experiment) -> Markup | None:
    if experiment.progress is None:
        return None
    return element(
        "progress", value=f"{experiment.progress:.4f}", max="1", title=f"{experiment.progress:.0%}"
    )


def _tone(experiment: Experiment) -> str:
    return "bad" if experiment.status in TROUBLED else _TONES.get(experiment.status, "calm")


def _dot(experiment: Experiment) -> Markup:
    return element("span", class_=f"dot {_tone(experiment)}", title=str(experiment.status), data_live="dot")


def _pill(experiment: Experiment) -> Markup:
    return element(
        "span", str(experiment.status).lower(), class_=f"pill {_tone(experiment)}", data_live="status"
    )


def _when(unix_time: float | None) -> str:
    return f" · started {time.strftime('%Y-%m-%d %H:%M', time.localtime(unix_time))}" if unix_time else ""


def _facts(library: Library, experiment: Experiment) -> Markup:
    target = f"of {text.count(experiment.target)}" if experiment.target else "no target"
    seconds = experiment.run.train_seconds
    left = f"{text.duration(experiment.left_sec)} left" if experiment.left_sec is not None else "not running"
    return element(
        "section",
        _tile("Frames", text.count(experiment.frames), target, "frames", extra=_bar(experiment)),
        _tile("Frames per second", text.count(experiment.fps), left, "fps"),
        _tile("Score", short_score(experiment.score), f"best {short_score(experiment.best_score)}", "score"),
        _tile("Trained for", text.duration(seconds), readable_size(experiment.size_bytes), "trained"),
        class_="tiles",
        id="facts",
        data_experiment=experiment.name,
    )


def _problem(library: Library, experiment: Experiment) -> Markup | None:
    if experiment.status not in TROUBLED:
        return None
    trace = library.trace(experiment)
    return element(
        "section",
        element("h2", "What went wrong"),
        element("p", library.blank(experiment.problem) or "No error is recorded.", class_="error"),
        element("details", element("summary", "Traceback"), element("pre", trace)) if trace else None,
        class_="card trouble",
        id="problem",
    )


def _verdict(library: Library, experiment: Experiment) -> Markup | None:
    facts = library.facts(experiment)
    if not facts["verdict"] and not facts["shares"]:
        return None
    sentence = facts["verdict"] or "not judged yet"
    return element(
        "section",
        element("h2", "What limits the speed"),
        element("p", sentence, class_="verdict", data_live="verdict"),
        element("div", class_="shares", id="shares", data_shares=json.dumps(facts["shares"])),
        class_="card",
        id="verdict",
    )


def _charts(library: Library, experiments: Sequence[Experiment], tags: Sequence[str]) -> Markup:
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


def _lineage(experiment: Experiment) -> Markup | None:
    if not has_lineage(experiment.path):
        return None
    return element(
        "section",
        element("h2", "Population"),
        element(
            "p",
            "Each line is a policy, stronger where its objective is higher; an arrow is a copy of a better "
            "policy, a diamond a mutation.",
            class_="note",
        ),
        element("div", id="lineage", class_="lineage", data_experiment=experiment.name),
        class_="card",
    )


def _media(library: Library, experiment: Experiment) -> Markup | None:
    shown = [_medium(experiment.name, file) for file in library.media(experiment)[:24]]
    if not shown:
        return None
    return element("section", element("h2", "Videos and pictures"), element("div", shown, class_="media"))


def _medium(name: str, file: str) -> Markup:
    url = f"/media?{urlencode({'e': name, 'f': file})}"
    caption = element("figcaption", file)
    if file.lower().endswith(VIDEO_SUFFIXES):
        shown = element("video", src=url, controls=True, loop=True, muted=True, preload="metadata")
    else:
        shown = element("img", src=url, alt=file, loading="lazy")
    return element("figure", shown, caption)


def _commands(library: Library, experiment: Experiment) -> Markup:
    config = experiment.run.config
    place = [f"--train_dir={library.train_dir}"]
    if experiment.name.count("/"):
        place.append(f"--experiments_root={experiment.name.rpartition('/')[0]}")
    last = experiment.name.rpartition("/")[2]
    env, algo = experiment.run.env, str(config.get("algo", "APPO"))
    lines = [f"sf enjoy --algo={algo} --env={env} --experiment={last} {' '.join(place)}"]
    flags = library.command_line(experiment)
    if flags and not experiment.is_running:
        lines.insert(0, f"sf train {flags}")
    lines.append(f"sf plot {experiment.name} --train_dir={library.train_dir}")
    return element(
        "section",
        element(
            "details", element("summary", "Commands: resume, watch, plot"), element("pre", "\n".join(lines))
        ),
        class_="card",
    )


def _settings(library: Library, experiment: Experiment) -> Markup:
    typed, every = library.settings(experiment)
    return element(
        "section",
        element("details", element("summary", f"Settings: {len(typed)} typed"), _pairs(typed), open=False),
        element("details", element("summary", f"All {len(every)} settings"), _pairs(every)),
        class_="card",
    )


def _pairs(values: Mapping[str, Any]) -> Markup:
    rows = [
        element("tr", element("th", name), element("td", json.dumps(value))) for name, value in values.items()
    ]
    return element("table", element("tbody", rows), class_="pairs")


def _differences(experiments: Sequence[Experiment], typed: Sequence[Mapping[str, Any]]) -> Markup:
    names = sorted({name for values in typed for name in values})
    names = [name for name in names if len({json.dumps(values.get(name)) for values in typed}) > 1]
    head = element(
        "tr", element("th", "Experiment"), [element("th", name) for name in names], element("th", "Score")
    )
    rows = [
        element(
            "tr",
            element("td", element("a", experiment.name, href=experiment_url(experiment.name))),
            [element("td", "–" if name not in values else json.dumps(values[name])) for name in names],
            element("td", short_score(experiment.score), class_="number"),
        )
        for experiment, values in zip(experiments, typed, strict=True)
    ]
    table = element("table", element("thead", head), element("tbody", rows))
    title = element("h2", "Where they differ")
    return element("section", title, element("div", table, class_="scroll"), class_="card")


def _log(library: Library, experiment: Experiment) -> Markup:
    log = library.log(experiment)
    return element(
        "section",
        element(
            "details",
            element("summary", "End of the log"),
            element("pre", log or "There is no log.", id="log", class_="log"),
            open=experiment.status in TROUBLED,
        ),
        class_="card",
    )

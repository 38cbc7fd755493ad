"""The dashboard's page about one experiment, and the one that compares several."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from sample_factory.benchmark import number_format as text
from sample_factory.experiments.dashboard.layout import bar, charts, experiment_url, page, tile, tone
from sample_factory.experiments.dashboard.library import Library
from sample_factory.experiments.dashboard.markup import Markup, element
from sample_factory.experiments.files import VIDEO_SUFFIXES
from sample_factory.experiments.lineage import has_lineage
from sample_factory.experiments.ls import readable_size, short_score
from sample_factory.experiments.reading import TROUBLED, Experiment

_MOST_MEDIA = 24


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
        _facts(experiment),
        _problem(library, experiment),
        _verdict(library, experiment),
        charts([experiment], library.tags(experiment)),
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
        charts(experiments, tags),
        _differences(experiments, typed),
    )


def _pill(experiment: Experiment) -> Markup:
    return element(
        "span", str(experiment.status).lower(), class_=f"pill {tone(experiment)}", data_live="status"
    )


def _when(unix_time: float | None) -> str:
    return f" · started {time.strftime('%Y-%m-%d %H:%M', time.localtime(unix_time))}" if unix_time else ""


def _facts(experiment: Experiment) -> Markup:
    target = f"of {text.count(experiment.target)}" if experiment.target else "no target"
    seconds = experiment.run.train_seconds
    left = f"{text.duration(experiment.left_sec)} left" if experiment.left_sec is not None else "not running"
    return element(
        "section",
        tile("Frames", text.count(experiment.frames), target, "frames", extra=bar(experiment)),
        tile("Frames per second", text.count(experiment.fps), left, "fps"),
        tile("Score", short_score(experiment.score), f"best {short_score(experiment.best_score)}", "score"),
        tile("Trained for", text.duration(seconds), readable_size(experiment.size_bytes), "trained"),
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
    if not (facts["verdict"] or facts["shares"] or experiment.is_running):
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
    shown = [_medium(experiment.name, file) for file in library.media(experiment)[:_MOST_MEDIA]]
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

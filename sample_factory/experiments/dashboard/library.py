"""What the dashboard knows about a train_dir: experiments by name, their curves, files and logs.

Requests name an experiment and perhaps a file; both are looked up in what was found on disk, never joined to
a path. Lists are a few seconds old at most, so that many open pages cost one look.

Invariant: everything that leaves here is inside the train_dir and has its secrets blanked.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sample_factory.benchmark.run_record import CONFIG_FILE, OUTPUT_FILE, RUN_FILE
from sample_factory.benchmark.status import output_file
from sample_factory.config.experiment_files import CFG_FILE
from sample_factory.config.redaction import blanked, without_secrets
from sample_factory.experiments.files import find_experiments, media_files, read_tail
from sample_factory.experiments.lineage import EVENTS_FILE, has_lineage, read_lineage
from sample_factory.experiments.reading import (
    Experiment,
    read,
    read_experiments,
    read_shares,
    read_verdict,
)
from sample_factory.experiments.series import Series, thinned
from sample_factory.monitoring.log import LOG_FILE_NAME, redact
from sample_factory.monitoring.metrics import METRICS_FILE_NAME

LIST_AGE_SEC = 3.0
MOST_POINTS = 600
_MOST_SERIES = 64
_LOG_BYTES = 32 * 1024
_READ_FILES = (CFG_FILE, CONFIG_FILE, RUN_FILE, METRICS_FILE_NAME, LOG_FILE_NAME, EVENTS_FILE, OUTPUT_FILE)
# Repeated elsewhere on the page, or of no use to people.
_NOT_SETTINGS = ("cli_args", "command_line", "environment")


class Library:
    """The experiments of one train_dir; used by many threads at once."""

    def __init__(self, train_dir: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.train_dir = train_dir
        self._clock = clock
        self._lock = threading.Lock()
        self._listed: list[Experiment] = []
        self._listed_at: float | None = None
        self._lineages: dict[Path, tuple[int, dict[str, Any]]] = {}
        self._series: OrderedDict[Path, Series] = OrderedDict()

    def experiments(self) -> list[Experiment]:
        """All experiments, at most `LIST_AGE_SEC` old."""
        with self._lock:  # held while reading, so that a second request waits for the first one's list
            now = self._clock()
            if self._listed_at is None or now - self._listed_at > LIST_AGE_SEC:
                found = find_experiments(self.train_dir)
                inside = {name: path for name, path in found.items() if self._is_inside(path)}
                self._listed = read_experiments(inside)
                self._listed_at = self._clock()
            return self._listed

    def experiment(self, name: str) -> Experiment | None:
        """One experiment, as it is now."""
        known = {experiment.name: experiment.path for experiment in self.experiments()}
        path = known.get(name)
        return read(name, path) if path is not None and path.is_dir() else None

    def facts(self, experiment: Experiment) -> dict[str, Any]:
        """What a page shows about an experiment and refreshes; without the machine's paths."""
        facts = experiment.to_json()
        del facts["path"]
        facts["problem"] = self.blank(experiment.problem)
        facts["verdict"] = read_verdict(experiment.path)
        facts["shares"] = read_shares(experiment.path)
        return facts

    def rows(self) -> list[dict[str, Any]]:
        """The list of experiments as plain values."""
        return [
            {name: value for name, value in experiment.to_json().items() if name != "path"}
            | {"problem": self.blank(experiment.problem)}
            for experiment in self.experiments()
        ]

    def curves(self, experiment: Experiment, tag: str, points: int = MOST_POINTS) -> dict[str, Any]:
        """A tag's curve of every policy, thinned to what a screen can show."""
        found = self._series_of(experiment.path).curves(tag)
        return {
            str(policy): {
                "steps": curve.env_steps.tolist(),
                "seconds": curve.seconds.round(2).tolist(),
                "values": curve.values.tolist(),
            }
            for policy, curve in ((p, thinned(c, points)) for p, c in found.items())
        }

    def tags(self, experiment: Experiment) -> list[str]:
        """The tags an experiment has values of."""
        return self._series_of(experiment.path).tags()

    def lineage(self, experiment: Experiment) -> dict[str, Any] | None:
        """The history of its population; None if it has none. Read again when it has grown."""
        path = experiment.path
        if not has_lineage(path):
            return None
        size = (path / EVENTS_FILE).stat().st_size
        known_size, lineage = self._lineages.get(path, (-1, {}))
        if size != known_size:
            lineage = read_lineage(path).to_json()
            self._lineages[path] = size, lineage
        return lineage

    def log(self, experiment: Experiment) -> str:
        """The end of its log, or of what it printed."""
        path = output_file(experiment.path)
        if path is None or not path.resolve().is_relative_to(self.train_dir.resolve()):
            return ""
        return self.blank(read_tail(path, _LOG_BYTES).text)

    def trace(self, experiment: Experiment) -> str:
        """The traceback its record holds."""
        trace = experiment.run.record.get("fail_trace")
        return self.blank("\n".join(str(line) for line in trace)) if isinstance(trace, list) else ""

    def media(self, experiment: Experiment) -> list[str]:
        """Its videos and pictures, as paths below its directory."""
        return [path.relative_to(experiment.path).as_posix() for path in media_files(experiment.path)]

    def media_file(self, experiment: Experiment, name: str) -> Path | None:
        """The file that `media` lists under a name."""
        for path in media_files(experiment.path):
            if path.relative_to(experiment.path).as_posix() == name:
                return path
        return None

    def settings(self, experiment: Experiment) -> tuple[dict[str, Any], dict[str, Any]]:
        """What was typed, and all settings."""
        config = without_secrets(experiment.run.config)
        typed = config.get("cli_args")
        every = {name: value for name, value in sorted(config.items()) if name not in _NOT_SETTINGS}
        return (dict(sorted(typed.items())) if isinstance(typed, dict) else {}), every

    def command_line(self, experiment: Experiment) -> str:
        """The flags it was started with."""
        return self.blank(str(experiment.run.config.get("command_line") or ""))

    @staticmethod
    def blank(text: str) -> str:
        """Text without secrets: neither this machine's own nor what is written like one."""
        return blanked(redact(text))

    def _is_inside(self, path: Path) -> bool:
        """Whether none of the files that are read is a link out of the train_dir."""
        links = [path / name for name in _READ_FILES if (path / name).is_symlink()]
        return all(link.resolve().is_relative_to(self.train_dir.resolve()) for link in links)

    def _series_of(self, path: Path) -> Series:
        with self._lock:
            series = self._series.setdefault(path, Series(path))
            self._series.move_to_end(path)
            while len(self._series) > _MOST_SERIES:
                self._series.popitem(last=False)
        series.refresh()
        return series

"""The scalars of an experiment in memory, kept current at the cost of what was added.

The dashboard keeps one `Series` per experiment somebody looks at; a file of many days is parsed once.

Invariant: only whole lines are taken, so a line that is being written comes with the next look.
"""

from __future__ import annotations

import json
import threading
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.benchmark.curves import SCORE_TAGS, Curve, active_seconds, rising_curve
from sample_factory.monitoring.metrics import METRICS_FILE_NAME

_NOT_TAGS = ("time", "env_steps", "policy")
SCORE = "score"


@dataclass
class _Policy:
    """One policy's records as columns; a tag has the numbers of its records and their values."""

    times: array[float] = field(default_factory=lambda: array("d"))
    steps: array[float] = field(default_factory=lambda: array("d"))
    tags: dict[str, tuple[array[int], array[float]]] = field(default_factory=dict)

    def add(self, record: dict[str, Any]) -> None:
        number = len(self.times)
        self.times.append(float(record["time"]))
        self.steps.append(float(record["env_steps"]))
        for tag, value in record.items():
            if tag in _NOT_TAGS or not isinstance(value, int | float):
                continue
            numbers, values = self.tags.setdefault(tag, (array("q"), array("d")))
            numbers.append(number)
            values.append(float(value))


class Series:
    """All scalars of one experiment."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / METRICS_FILE_NAME
        self._lock = threading.Lock()
        self._offset = 0
        self._policies: dict[int, _Policy] = {}

    def refresh(self) -> None:
        """Takes the lines that were added; starts afresh with a file that was replaced by a shorter one."""
        with self._lock:
            try:
                size = self._path.stat().st_size
                if size < self._offset:
                    self._offset, self._policies = 0, {}
                if size == self._offset:
                    return
                with self._path.open("rb") as file:
                    file.seek(self._offset)
                    content = file.read(size - self._offset)
            except OSError:
                return
            whole = content.rfind(b"\n") + 1
            self._offset += whole
            for line in content[:whole].splitlines():
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            record = json.loads(line)
            self._policies.setdefault(int(record["policy"]), _Policy()).add(record)
        except (ValueError, KeyError, TypeError):
            return  # torn by a crash

    def tags(self) -> list[str]:
        """Every tag that has a value, sorted."""
        with self._lock:
            return sorted({tag for policy in self._policies.values() for tag in policy.tags})

    def curves(self, tag: str) -> dict[int, Curve]:
        """The curve of each policy that has the tag; "score" is what runs are ranked by."""
        with self._lock:
            wanted = self._score_tag() if tag == SCORE else tag
            return {
                number: _curve(policy, wanted)
                for number, policy in sorted(self._policies.items())
                if wanted in policy.tags
            }

    def _score_tag(self) -> str:
        known = {tag for policy in self._policies.values() for tag in policy.tags}
        return next((tag for tag in SCORE_TAGS if tag in known), SCORE_TAGS[0])


def _curve(policy: _Policy, tag: str) -> Curve:
    numbers, values = policy.tags[tag]
    rows = np.array(numbers)
    seconds = active_seconds(np.array(policy.times))
    return rising_curve(np.array(policy.steps)[rows], seconds[rows], np.array(values))


def thinned(curve: Curve, most_points: int) -> Curve:
    """A curve of at most so many points, each the mean of its neighbours; the last point stays as it is."""
    count = len(curve.values)
    if count <= most_points:
        return curve
    edges = np.linspace(0, count - 1, most_points).astype(np.int64)
    starts, sizes = edges[:-1], np.diff(edges)
    columns = (curve.env_steps, curve.seconds, curve.values)
    means = (np.add.reduceat(column[:-1], starts) / sizes for column in columns)
    last = (column[-1:] for column in columns)
    return Curve(*(np.concatenate(pair) for pair in zip(means, last, strict=True)))

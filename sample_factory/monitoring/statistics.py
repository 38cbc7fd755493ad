"""Moving statistics of a session: episode results per policy, and how fast frames flow.

The session feeds both classes from reports; console, summaries and population-based training read them.

Invariant: no input or output here, and time comes only from the clock that was passed in.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from sample_factory.monitoring.reports import EpisodeReport

FPS_WINDOWS_SEC = (10.0, 60.0, 300.0)
_THROUGHPUT_WINDOW_SEC = 25.0


@dataclass(frozen=True, slots=True)
class WindowSummary:
    """Mean, extremes and number of the values in one window."""

    mean: float
    min: float
    max: float
    count: int


class EpisodeStatistics:
    """The latest `stats_avg` episodes of each policy: reward, true_reward, len and extra stats."""

    def __init__(self, stats_avg: int) -> None:
        self.stats_avg = stats_avg
        self._windows: dict[int, dict[str, deque[float]]] = {}

    def add(self, policy_id: int, report: EpisodeReport) -> None:
        """Takes one finished episode into the windows of the policy that played it."""
        values = {"reward": report.reward, "true_reward": report.true_reward, "len": float(report.length)}
        # An environment's own stat of the same name must not replace what every report shows.
        values = flatten_stats(report.extra) | values
        windows = self._windows.setdefault(policy_id, {})
        for name, value in values.items():
            windows.setdefault(name, deque(maxlen=self.stats_avg)).append(value)

    def summary(self, policy_id: int, name: str) -> WindowSummary | None:
        """One statistic of one policy, or None before its first value."""
        window = self._windows.get(policy_id, {}).get(name)
        if not window:
            return None
        return WindowSummary(math.fsum(window) / len(window), min(window), max(window), len(window))

    def summaries(self, policy_id: int) -> dict[str, WindowSummary]:
        """All statistics of one policy by name."""
        found = {name: self.summary(policy_id, name) for name in self._windows.get(policy_id, {})}
        return {name: summary for name, summary in found.items() if summary is not None}

    def mean(self, policy_id: int, name: str) -> float | None:
        """The mean of one statistic, or None before its first value."""
        summary = self.summary(policy_id, name)
        return None if summary is None else summary.mean


def flatten_stats(stats: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Nested statistics as one level with `/` in the names; what is not a number is left out."""
    return dict(_flattened(stats, prefix))


def _flattened(stats: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for key, value in stats.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{name}/")
        elif isinstance(value, Real):
            yield name, float(value)
        elif getattr(value, "size", None) == 1 and hasattr(
            value, "item"
        ):  # numpy scalars and 1-element arrays
            item = value.item()
            if isinstance(item, Real):
                yield name, float(item)


@dataclass(frozen=True, slots=True)
class _Record:
    time: float
    env_steps: tuple[int, ...]
    samples: tuple[int, ...]


def _samples_of(policy_id: int) -> Callable[[_Record], int]:
    return lambda record: record.samples[policy_id]


class FpsMeter:
    """Frames learned from and steps sampled per second, from totals recorded every few seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._records: deque[_Record] = deque()

    def record(self, env_steps: Sequence[int], samples: Sequence[int]) -> None:
        """Notes the totals of this moment.

        Args:
            env_steps: frames learned from so far, per policy.
            samples: steps sampled so far, per policy.
        """
        now = self._clock()
        self._records.append(_Record(now, tuple(env_steps), tuple(samples)))
        # One record older than the longest window must stay: it is that window's starting point.
        while len(self._records) > 2 and now - self._records[1].time >= FPS_WINDOWS_SEC[-1]:
            self._records.popleft()

    def fps(self) -> tuple[float, float, float]:
        """Frames per second of all policies together over 10, 60 and 300 s; NaN before the second record."""
        short, middle, long = (self._rate(window, lambda r: sum(r.env_steps)) for window in FPS_WINDOWS_SEC)
        return short, middle, long

    def policy_fps(self, policy_id: int, window_sec: float = FPS_WINDOWS_SEC[0]) -> float:
        """Frames per second of one policy."""
        return self._rate(window_sec, lambda record: record.env_steps[policy_id])

    def throughput(self) -> tuple[float, ...]:
        """Sampled steps per second of each policy."""
        policies = len(self._records[-1].samples) if self._records else 0
        return tuple(self._rate(_THROUGHPUT_WINDOW_SEC, _samples_of(policy)) for policy in range(policies))

    def _rate(self, window_sec: float, total: Callable[[_Record], int]) -> float:
        if len(self._records) < 2:
            return math.nan
        newest = self._records[-1]
        start = self._records[0]
        for record in self._records:
            # Records come a little late, never early: the youngest that covers the whole window is meant.
            if record is not newest and newest.time - record.time >= window_sec:
                start = record
        elapsed = newest.time - start.time
        if elapsed <= 0:
            return math.nan
        # A learner restarted from its checkpoint counts back; that is not negative speed.
        return max(0.0, (total(newest) - total(start)) / elapsed)


def seconds_until(target: float, env_steps: Sequence[int], fps: float) -> float:
    """Seconds until the slowest policy has `target` frames, if all policies share `fps` equally."""
    missing = max(0.0, target - min(env_steps))
    return missing * len(env_steps) / fps

"""Learning curves: the values of a tag over a run's frames or seconds, and their mean over seeds.

Read from `metrics.jsonl`, from SB3's evaluations.npz, or, for experiments of v1, from TensorBoard's event
files. `plot`, `report`, `export` and training scores use it.

Invariant: curves are averaged only where every seed has values; nothing is extrapolated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.benchmark.errors import BenchmarkError
from sample_factory.benchmark.statistics.aggregates import trimmed_mean
from sample_factory.benchmark.statistics.bootstrap import Bootstrap, band
from sample_factory.monitoring.metrics import METRICS_FILE_NAME, read_metrics

# What a run is ranked by, best first; a wrapped script has only the last.
SCORE_TAGS = ("0_aux/avg_true_reward", "0_aux/avg_reward", "10_ep_mean_reward")
FPS_TAG = "0_aux/_fps"
X_AXES = ("env_steps", "train_seconds")

_SUMMARY_DIR = ".summary"
_GRID_POINTS = 200
_LONGEST_GAP_SEC = 600.0  # longer silence is a pause between two attempts, not training


@dataclass(frozen=True)
class Curve:
    """Values of one run; `env_steps` and `seconds` since the start rise with the index."""

    env_steps: np.ndarray
    seconds: np.ndarray
    values: np.ndarray

    def x(self, axis: str) -> np.ndarray:
        """The horizontal axis called `env_steps` or `train_seconds`."""
        return self.env_steps if axis == "env_steps" else self.seconds


@dataclass(frozen=True)
class AlignedCurves:
    """Curves of several seeds on common points, `values` is `[seeds, points]`."""

    x: np.ndarray
    values: np.ndarray

    def scaled(self, unit: float) -> AlignedCurves:
        """The same curves over `x` in another unit."""
        return AlignedCurves(self.x / unit, self.values)

    @property
    def mean(self) -> np.ndarray:
        """Mean over seeds."""
        return self.values.mean(axis=0)

    @property
    def iqm(self) -> np.ndarray:
        """Interquartile mean over seeds."""
        return trimmed_mean(self.values.T)

    def interval(self, settings: Bootstrap, *, use_iqm: bool = False) -> tuple[np.ndarray, np.ndarray] | None:
        """Pointwise bounds of the mean or IQM, resampling whole curves; None with a single seed."""
        if len(self.values) < 2:
            return None

        def statistic(tasks: Sequence[np.ndarray]) -> np.ndarray:
            rows = self.values[tasks[0].astype(np.int64)]  # [reps, seeds, points]
            return trimmed_mean(np.moveaxis(rows, 1, -1)) if use_iqm else rows.mean(axis=1)

        return band(statistic, [np.arange(len(self.values), dtype=np.float64)], settings=settings)

    def spread(
        self, kind: str, settings: Bootstrap, *, use_iqm: bool = False
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Pointwise bounds: the "interval" above, "std" around the mean, or the "range" of all seeds."""
        if len(self.values) < 2 or kind not in ("interval", "std", "range"):
            return None
        if kind == "range":
            return self.values.min(axis=0), self.values.max(axis=0)
        if kind == "std":
            deviation = self.values.std(axis=0)
            return self.mean - deviation, self.mean + deviation
        return self.interval(settings, use_iqm=use_iqm)


def read_curve(path: Path, tag: str | None = None, policy: int = 0) -> Curve | None:
    """The curve of a run, of the first tag that it has; None if it has none.

    Args:
        path: the run's directory, or an evaluations.npz.
        tag: None takes what runs are ranked by.
        policy: whose values.
    """
    if path.suffix == ".npz":
        return _zoo_curve(path)
    records = [record for record in read_metrics(path / METRICS_FILE_NAME) if record.get("policy") == policy]
    if not records:
        records = _event_records(path / _SUMMARY_DIR / str(policy))
    for wanted in (tag,) if tag else SCORE_TAGS:
        if any(record.get(wanted) is not None for record in records):
            return _curve(records, wanted)
    return None


def last_value(directory: Path, tag: str | None = None) -> float | None:
    """The newest value of a run's curve: the score of its last training episodes."""
    curve = read_curve(directory, tag)
    return float(curve.values[-1]) if curve is not None else None


def align(curves: Sequence[Curve], axis: str = "env_steps", window: int = 1) -> AlignedCurves:
    """Brings curves onto common points, by linear interpolation where all of them have values.

    Args:
        curves: one per seed, at least one.
        axis: see `X_AXES`.
        window: each value becomes the mean of this many before it; 1 leaves curves as they are.

    Raises:
        BenchmarkError: the curves have no common range.
    """
    start = max(float(curve.x(axis)[0]) for curve in curves)
    end = min(float(curve.x(axis)[-1]) for curve in curves)
    if start > end:
        raise BenchmarkError(f"the runs have no common range of {axis}; leave out the ones that just began.")
    x = np.linspace(start, end, _GRID_POINTS) if end > start else np.array([start])
    values = [np.interp(x, curve.x(axis), smoothed(curve.values, window)) for curve in curves]
    return AlignedCurves(x, np.stack(values))


def smoothed(values: np.ndarray, window: int) -> np.ndarray:
    """Mean over the last `window` values at each point; fewer at the beginning."""
    if window <= 1:
        return values
    sums = np.cumsum(np.insert(values, 0, 0.0))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(0, ends - window)
    averaged: np.ndarray = (sums[ends] - sums[starts]) / (ends - starts)
    return averaged


def _curve(records: Sequence[dict[str, Any]], tag: str) -> Curve:
    times = np.array([record["time"] for record in records], dtype=np.float64)
    with_tag = np.array([record.get(tag) is not None for record in records])
    points = [record for record in records if record.get(tag) is not None]
    steps = np.array([record["env_steps"] for record in points], dtype=np.float64)
    values = np.array([record[tag] for record in points], dtype=np.float64)
    return rising_curve(steps, active_seconds(times)[with_tag], values)


def active_seconds(times: np.ndarray) -> np.ndarray:
    """Seconds of training at each moment of a run's unix times; pauses between attempts do not count."""
    gaps = np.diff(times, prepend=times[:1])
    return np.cumsum(np.where(gaps > _LONGEST_GAP_SEC, 0.0, gaps))


def rising_curve(steps: np.ndarray, seconds: np.ndarray, values: np.ndarray) -> Curve:
    """A curve of points in the order they were written.

    A run resumed from an older checkpoint repeats some frames: the later attempt counts.
    """
    kept = np.minimum.accumulate(steps[::-1])[::-1] == steps
    last_of_step = np.append(np.diff(steps[kept]) > 0, True)
    return Curve(steps[kept][last_of_step], seconds[kept][last_of_step], values[kept][last_of_step])


def _zoo_curve(path: Path) -> Curve:
    with np.load(path, allow_pickle=False) as arrays:
        steps = np.asarray(arrays["timesteps"], np.float64)
        means = np.asarray(arrays["results"], np.float64).mean(axis=1)
    return Curve(steps, np.full(len(steps), np.nan), means)


def _event_records(directory: Path) -> list[dict[str, Any]]:
    """The scalars of an experiment of v1, as metrics.jsonl would hold them."""
    if not directory.is_dir():
        return []
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError as error:
        raise BenchmarkError(
            f"{directory} needs TensorBoard to be read: pip install 'sample-factory-rebuilt[tensorboard]'."
        ) from error
    events = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    events.Reload()
    points: dict[tuple[int, float], dict[str, Any]] = {}
    for tag in events.Tags()["scalars"]:
        for event in events.Scalars(tag):
            key = (event.step, round(event.wall_time, 3))
            record = points.setdefault(key, {"time": key[1], "env_steps": event.step, "policy": 0})
            record[tag] = event.value
    return sorted(points.values(), key=lambda record: (record["time"], record["env_steps"]))

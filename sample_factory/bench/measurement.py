"""From samples of a running program to figures: windows, their spread, who used the CPU, what a step costs.

`watching` takes the samples, `speed` stores the figures, `tables` shows them. Pure arithmetic, no clock.
Invariant: a window begins where the one before ended, and none begins before the warm-up is over.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ROLLOUT, POLICY, LEARNER, MAIN, SIMULATORS = "rollout", "policy", "learner", "main", "simulators"
FOREIGN_LIMIT = 0.2  # cores of other programs' work beyond which a window says little


@dataclass(frozen=True)
class Sample:
    """The state of the measured program at one moment."""

    time_sec: float
    steps: int  # of all environments
    cpu_sec: Mapping[str, float]  # used so far, by role
    machine_sec: float  # CPU time that all programs of the machine have used, or its host took

    @property
    def total_cpu_sec(self) -> float:
        """CPU time of the whole process tree."""
        return sum(self.cpu_sec.values())


@dataclass(frozen=True)
class Window:
    """What happened between two samples."""

    seconds: float
    steps: int
    cpu_sec: Mapping[str, float]
    foreign_cores: float

    @classmethod
    def between(cls, first: Sample, last: Sample) -> Window:
        """The difference of two samples."""
        seconds = last.time_sec - first.time_sec
        ours = last.total_cpu_sec - first.total_cpu_sec
        return cls(
            seconds=seconds,
            steps=last.steps - first.steps,
            cpu_sec={role: used - first.cpu_sec.get(role, 0.0) for role, used in last.cpu_sec.items()},
            foreign_cores=max(0.0, (last.machine_sec - first.machine_sec - ours) / seconds),
        )


def cut_windows(samples: Sequence[Sample], begin_sec: float, window_sec: float) -> list[Window]:
    """All whole windows after the warm-up, one after the other."""
    later = [sample for sample in samples if sample.time_sec >= begin_sec]
    windows: list[Window] = []
    if not later:
        return windows
    first = later[0]
    for sample in later[1:]:
        if sample.time_sec - first.time_sec >= window_sec:
            windows.append(Window.between(first, sample))
            first = sample
    return windows


def speed_figures(windows: Sequence[Window], frames_per_step: int) -> dict[str, Any]:
    """Speed with its spread, cores used, CPU cost of a step; for the JSON file."""
    rates = [frames_per_step * window.steps / window.seconds for window in windows]
    cpu_sec = sum(sum(window.cpu_sec.values()) for window in windows)
    steps = sum(window.steps for window in windows)
    return {
        "frames_per_sec": {
            "median": statistics.median(rates),
            "min": min(rates),
            "max": max(rates),
            "windows": rates,
        },
        "window_sec": [window.seconds for window in windows],
        "cores_used": cpu_sec / sum(window.seconds for window in windows),
        "core_us_per_step": 1e6 * cpu_sec / max(steps, 1),
        "foreign_cores": [window.foreign_cores for window in windows],
        "undisturbed": all(window.foreign_cores <= FOREIGN_LIMIT for window in windows),
    }


def cpu_split(windows: Sequence[Window], activity_sec: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Per cent of the tree's CPU time for environment, inference, learner, main process and the rest.

    A rollout worker's CPU time is divided by what its own stopwatch says of its working time; simulators that
    run as programs of their own count as environment.

    Args:
        windows: the measured ones.
        activity_sec: seconds by component and activity, as a session's run.json has them; may be empty.
    """
    used = {role: sum(window.cpu_sec.get(role, 0.0) for window in windows) for role in _ROLES}
    total = max(sum(used.values()), 1e-9)
    shares = _rollout_shares(activity_sec)
    split = {
        "environment": used[SIMULATORS] + used[ROLLOUT] * shares["environment"],
        "inference": used[POLICY] + used[ROLLOUT] * shares["inference"],
        "learner": used[LEARNER],
        "main": used[MAIN],
        "rollout_bookkeeping": used[ROLLOUT] * shares["other"],
    }
    return {name: 100 * seconds / total for name, seconds in split.items()}


_ROLES = (ROLLOUT, POLICY, LEARNER, MAIN, SIMULATORS)


def _rollout_shares(activity_sec: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Environment, inference and the rest, as shares of the working time of all rollout workers."""
    workers = [seconds for name, seconds in activity_sec.items() if name.startswith("rollout_worker")]
    sums = {
        activity: sum(worker.get(activity, 0.0) for worker in workers)
        for activity in ("environment", "inference", "other")
    }
    total = sum(sums.values())
    if total <= 0:  # a program without stopwatches does nothing but step environments
        return {"environment": 1.0, "inference": 0.0, "other": 0.0}
    return {activity: seconds / total for activity, seconds in sums.items()}


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Least-squares slope: for memory, megabytes that one more environment costs."""
    return statistics.linear_regression(xs, ys).slope

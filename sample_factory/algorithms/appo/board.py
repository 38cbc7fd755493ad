"""The board: small shared numbers that everybody may read and exactly one component writes.

| array | written by | read by |
|---|---|---|
| env_steps, samples, iterations, paused, lag | the learner of that policy | session, rollout workers |
| best_metric, cfg_number, shaping_number, save_requests, load_* | the session | learners, rollout workers |
| saves_done, loads_done | the learner of that policy | session |
| split_* | the rollout worker of that row | policy workers |
| collected, sampled_frames | the rollout worker of that row | learners, session |
| waiting | set by the rollout worker of that row | learners, which clear it when they wake the worker |
| seat_wanted | the session | league keeper |
| seat_loaded | the league keeper | session, rollout workers |
| seconds, memory_mb | the component of that row | session |

Invariant: one writer per element, so no lock is needed. (Two may clear `waiting`; a wake-up too many does no
harm.) For a rollout worker that died the session writes.
"""

from __future__ import annotations

import math
import time
from enum import IntEnum

import numpy as np
import psutil

from sample_factory.algorithms.appo.messages import next_tick
from sample_factory.processes.shared_memory import ArraySpec, SharedArrays

MEMORY_LOOK_SEC = 10.0


class Activity(IntEnum):
    """What a component spends its time on."""

    ENVIRONMENT = 0
    INFERENCE = 1
    TRAINING = 2
    BATCHING = 3
    WAITING = 4
    OTHER = 5


class Lag(IntEnum):
    """Columns of the policy lag of the last batch."""

    MIN = 0
    AVG = 1
    MAX = 2


class Board:
    """Typed access to the shared numbers."""

    def __init__(self, arrays: SharedArrays):
        self.env_steps: np.ndarray = arrays["env_steps"]  # frames this policy's learner has consumed
        self.samples: np.ndarray = arrays["samples"]
        self.iterations: np.ndarray = arrays["iterations"]  # training iterations finished in this run
        self.paused: np.ndarray = arrays["paused"]  # learner: no new trajectories for me
        self.lag: np.ndarray = arrays["lag"]
        self.best_metric: np.ndarray = arrays["best_metric"]  # what --save_best_metric is now; NaN: unknown
        # Population-based training; numbers that grow, so that a reader sees that there is something new.
        self.cfg_number: np.ndarray = arrays["cfg_number"]  # a policy's hyper-parameters were written
        self.shaping_number: np.ndarray = arrays["shaping_number"]  # its reward shaping was written
        self.save_requests: np.ndarray = arrays["save_requests"]  # its learner shall save
        self.saves_done: np.ndarray = arrays["saves_done"]  # the learner has answered this request
        self.load_requests: np.ndarray = arrays["load_requests"]  # it shall take over the weights of ...
        self.load_from: np.ndarray = arrays["load_from"]  # ... this policy
        self.loads_done: np.ndarray = arrays["loads_done"]  # the learner has taken over and saved
        self.split_ticks: np.ndarray = arrays["split_ticks"]  # of the last request; others are void
        self.split_slots: np.ndarray = arrays["split_slots"]
        self.split_policies: np.ndarray = arrays["split_policies"]
        self.split_rows: np.ndarray = arrays["split_rows"]
        self.collected: np.ndarray = arrays["collected"]  # trajectories each split has handed over
        self.waiting: np.ndarray = arrays["waiting"]  # worker waits for slots or for a pause to end
        self.sampled_frames: np.ndarray = arrays["sampled_frames"]
        self.seat_wanted: np.ndarray = arrays["seat_wanted"]  # which member of the league shall sit there
        self.seat_loaded: np.ndarray = arrays["seat_loaded"]  # who does; negative: nobody
        self.seconds: np.ndarray = arrays["seconds"]  # [components, activities]
        self.memory_mb: np.ndarray = arrays["memory_mb"]  # [components]

    @staticmethod
    def specs(
        num_policies: int,
        num_workers: int,
        num_splits: int,
        agents_per_split: int,
        num_components: int,
        num_seats: int = 0,
    ) -> dict[str, ArraySpec]:
        """The board's arrays."""
        splits = (num_workers, num_splits)
        seats = (max(1, num_seats),)
        return {
            "env_steps": ArraySpec((num_policies,), "int64"),
            "samples": ArraySpec((num_policies,), "int64"),
            "iterations": ArraySpec((num_policies,), "int64"),
            "paused": ArraySpec((num_policies,), "bool"),
            "lag": ArraySpec((num_policies, len(Lag)), "float64", fill=-1),
            "best_metric": ArraySpec((num_policies,), "float64", fill=math.nan),
            "cfg_number": ArraySpec((num_policies,), "int64"),
            "shaping_number": ArraySpec((num_policies,), "int64"),
            "save_requests": ArraySpec((num_policies,), "int64"),
            "saves_done": ArraySpec((num_policies,), "int64"),
            "load_requests": ArraySpec((num_policies,), "int64"),
            "load_from": ArraySpec((num_policies,), "int64"),
            "loads_done": ArraySpec((num_policies,), "int64"),
            "split_ticks": ArraySpec(splits, "int64"),
            "split_slots": ArraySpec((*splits, agents_per_split), "int64"),
            "split_policies": ArraySpec((*splits, agents_per_split), "int16"),
            "split_rows": ArraySpec(splits, "int64"),
            "collected": ArraySpec(splits, "int64"),
            "waiting": ArraySpec((num_workers,), "bool"),
            "sampled_frames": ArraySpec((num_workers,), "int64"),
            "seat_wanted": ArraySpec(seats, "int64", fill=-1),
            "seat_loaded": ArraySpec(seats, "int64", fill=-1),
            "seconds": ArraySpec((num_components, len(Activity)), "float64"),
            "memory_mb": ArraySpec((num_components,), "float64"),
        }

    def withdraw_requests(self, worker_id: int) -> None:
        """Makes policy workers ignore what a rollout worker that died had asked for."""
        self.split_ticks[worker_id] = [next_tick(int(tick)) for tick in self.split_ticks[worker_id]]


class Stopwatch:
    """Books a component's time on the board: each `switch` ends one activity and starts the next."""

    def __init__(self, board: Board, component_index: int):
        self._seconds = board.seconds[component_index]
        self._memory_mb = board.memory_mb[component_index : component_index + 1]
        self._process = psutil.Process()
        self._next_look = 0.0
        self._activity = Activity.OTHER
        self._since = time.perf_counter()

    def switch(self, activity: Activity) -> Activity:
        """Starts booking to `activity`; returns the one that was running."""
        now = time.perf_counter()
        previous = self._activity
        self._seconds[previous] += now - self._since
        self._activity, self._since = activity, now
        if now >= self._next_look:
            self._next_look = now + MEMORY_LOOK_SEC
            self._memory_mb[0] = self._process.memory_info().rss / 2**20
        return previous

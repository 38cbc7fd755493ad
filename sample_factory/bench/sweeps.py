"""How cost grows with work: which flag each sweep varies, and over which values.

Pure data and arithmetic for `speed --scaling=...`. Invariant: within a sweep everything but the named
quantity, and what must follow from it, stays the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sample_factory.bench.workloads import Workload


@dataclass(frozen=True)
class Point:
    """One training of a sweep."""

    value: int
    num_envs: int
    flags: list[str]


@dataclass(frozen=True)
class Sweep:
    """One quantity, the values it takes by default, and the training each value stands for."""

    quantity: str
    values: tuple[int, ...]
    point: Callable[[Workload, int, int], Point]  # of a workload, a number of workers and a value


def _envs(workload: Workload, workers: int, value: int) -> Point:
    workers = min(workers, value)
    per_worker = value // workers
    return Point(value, workers * per_worker, workload.training_flags(workers, per_worker))


def _workers(workload: Workload, _workers: int, value: int) -> Point:
    per_worker = 4
    return Point(value, value * per_worker, workload.training_flags(value, per_worker))


def _with_flag(*templates: str) -> Callable[[Workload, int, int], Point]:
    def point(workload: Workload, workers: int, value: int) -> Point:
        envs = workload.envs_per_worker
        flags = workload.training_flags(workers, envs)
        return Point(value, workers * envs, [*flags, *(t.format(value) for t in templates)])

    return point


def _rollout(workload: Workload, workers: int, value: int) -> Point:
    recurrent = "--use_rnn=True" in workload.training
    templates = ("--rollout={}", "--recurrence={}") if recurrent else ("--rollout={}",)
    return _with_flag(*templates)(workload, workers, value)


SWEEPS = {
    "envs": Sweep("environments", (2, 8, 32, 128, 512), _envs),
    "workers": Sweep("rollout workers, 4 environments each", (1, 2, 4, 8, 16), _workers),
    "policies": Sweep("policies", (1, 2, 3, 4), _with_flag("--num_policies={}")),
    "rollout": Sweep("steps in a trajectory", (8, 16, 32, 64, 128), _rollout),
    "batch": Sweep("steps in a minibatch", (512, 1024, 2048, 4096, 8192), _with_flag("--batch_size={}")),
}

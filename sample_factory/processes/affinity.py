"""Which CPU cores a worker is pinned to."""

from __future__ import annotations

import os
from collections.abc import Sequence


def cores_for_worker(worker_id: int, num_workers: int, cores: Sequence[int]) -> list[int] | None:
    """The cores of one worker, or None when it should float.

    As many workers as fill whole rounds of the cores get one core each. The rest share the cores evenly in
    consecutive groups if their number divides the number of cores, and are not pinned otherwise.
    """
    num_cores = len(cores)
    whole_rounds = num_workers // num_cores * num_cores
    if worker_id < whole_rounds:
        return [cores[worker_id % num_cores]]
    rest = num_workers - whole_rounds
    if num_cores % rest:
        return None
    group = num_cores // rest
    start = (worker_id - whole_rounds) * group
    return list(cores[start : start + group])


def available_cores() -> list[int]:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def pin(cores: Sequence[int] | None) -> None:
    """Pins the calling process, where the platform can."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)

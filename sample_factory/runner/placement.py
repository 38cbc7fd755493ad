"""Which GPU a local job gets, and whether there is room for one more.

Used by the engine. Invariant: no GPU ever holds more than `experiments_per_gpu` jobs, and no more than
`max_parallel` run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from sample_factory.runner.errors import RunnerError


class Placement:
    """Room for local jobs.

    Args:
        max_parallel: how many jobs run at the same time; 0 is any number.
        gpus: the GPUs to spread them over; empty when jobs see all GPUs.
        experiments_per_gpu: how many jobs share one GPU.
    """

    def __init__(self, max_parallel: int, gpus: Sequence[str] = (), experiments_per_gpu: int = 0):
        self._max_parallel = max_parallel
        self._free = dict.fromkeys(gpus, experiments_per_gpu)
        self._placed: dict[str, str | None] = {}

    def has_room(self) -> bool:
        """Whether one more job may start."""
        if self._max_parallel and len(self._placed) >= self._max_parallel:
            return False
        return not self._free or max(self._free.values()) > 0

    def place(self, job_id: str) -> str | None:
        """Take the room; the answer is the GPU with most free slots, the first of equals."""
        gpu = max(self._free, key=lambda name: self._free[name]) if self._free else None
        self.occupy(job_id, gpu)
        return gpu

    def occupy(self, job_id: str, gpu: str | None) -> None:
        """Note a job that runs already."""
        self._placed[job_id] = gpu
        if gpu in self._free:
            self._free[gpu] -= 1

    def release(self, job_id: str) -> None:
        """The job is over."""
        gpu = self._placed.pop(job_id, None)
        if gpu in self._free:
            self._free[gpu] += 1


def visible_gpus(num_gpus: int) -> list[str]:
    """The first GPUs this process may use: of CUDA_VISIBLE_DEVICES if it is set, else numbers from 0.

    Raises:
        RunnerError: when fewer are visible than asked for.
    """
    inherited = os.environ.get("CUDA_VISIBLE_DEVICES")
    if inherited is None:
        return [str(number) for number in range(num_gpus)]
    gpus = [item.strip() for item in inherited.split(",") if item.strip()]
    if len(gpus) < num_gpus:
        raise RunnerError(
            f"--num_gpus={num_gpus}, but CUDA_VISIBLE_DEVICES={inherited} shows {len(gpus)}; "
            f"use --num_gpus={len(gpus)} or change the variable."
        )
    return gpus[:num_gpus]

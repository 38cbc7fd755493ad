"""Remembers what is handed to sbatch, so that a launcher that dies in that moment submits nothing twice.

Before sbatch starts, a file says which attempts it is about and under which token; sbatch gives the token to
the job as its comment, and holds a lock on the file for as long as it runs, also when its launcher is gone.
The next launcher waits for the lock and asks Slurm for the token.

Invariant: an attempt without an id either has a job with its token, or was never submitted.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sample_factory.config.experiment_files import write_json
from sample_factory.runner.commands import Launch

_PATIENCE_SEC = 60.0
_POLL_SEC = 0.1


@dataclass(frozen=True)
class Submission:
    """One call of sbatch.

    Attributes:
        token: the comment of its job.
        jobs: job ids and attempt numbers, in the order of an array's tasks.
        is_array: whether Slurm's ids end in the number of the task.
        path: the file about it.
    """

    token: str
    jobs: tuple[tuple[str, int], ...]
    is_array: bool
    path: Path

    def slurm_id(self, base: str, job_id: str, attempt: int) -> str:
        """What Slurm calls an attempt, from the id of the whole submission."""
        return f"{base}_{self.jobs.index((job_id, attempt))}" if self.is_array else base

    def is_over(self) -> bool:
        """Whether sbatch has ended; waits for it, but not for ever."""
        deadline = time.monotonic() + _PATIENCE_SEC
        with self.path.open("rb") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return True
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        return False
                time.sleep(_POLL_SEC)  # waiting for a file lock has no deadline


class Submissions:
    """The submissions of a run.

    Args:
        directory: holds a file for each.
    """

    def __init__(self, directory: Path):
        self._directory = directory

    @contextmanager
    def announced(self, launches: Sequence[Launch], is_array: bool) -> Iterator[tuple[str, int]]:
        """A token for a submission, and a file descriptor that sbatch must inherit."""
        token = f"sf-{uuid.uuid4().hex}"
        path = self._directory / f"{token}.json"
        jobs = [[launch.job.id, launch.attempt] for launch in launches]
        write_json(path, {"token": token, "jobs": jobs, "is_array": is_array})
        descriptor = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield token, descriptor
        finally:
            os.close(descriptor)

    def of(self, job_id: str, attempt: int) -> Submission | None:
        """The submission of an attempt; None if there was none."""
        for path in self._directory.glob("sf-*.json"):
            content = json.loads(path.read_text(encoding="utf-8"))
            jobs = tuple((str(name), int(number)) for name, number in content["jobs"])
            if (job_id, attempt) in jobs:
                return Submission(content["token"], jobs, bool(content["is_array"]), path)
        return None

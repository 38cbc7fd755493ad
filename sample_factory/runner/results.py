"""Reads what `job_process` writes, and tells whether the process that should write it is still there.

Used by the back ends. Invariant: a result with an exit code is final, whoever reads it and whenever.
"""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass, fields
from pathlib import Path

import psutil

# A supervisor on another machine that has not touched its file for this long counts as gone.
STALE_SEC = 300.0
# The kernel's and our idea of when a process started differ by rounding and clock corrections.
_CLOCK_TOLERANCE_SEC = 5.0


@dataclass(frozen=True)
class JobResult:
    """What the supervisor of an attempt wrote; the fields are those of `job_process`."""

    attempt: int
    host: str
    pid: int
    started: float
    stopped: float | None = None
    exit_code: int | None = None
    timed_out: bool = False
    stopped_by: str | None = None
    requeued: bool = False

    @property
    def ended(self) -> bool:
        """Whether the exit code is known and nobody is going to start this attempt again."""
        return self.exit_code is not None and not self.requeued


def read_result(path: Path) -> JobResult | None:
    """The result of an attempt; None when it has not started or its disk is not readable here."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    known = {item.name for item in fields(JobResult)}
    return JobResult(**{key: value for key, value in values.items() if key in known})


def supervisor_alive(result: JobResult, path: Path) -> bool:
    """Whether the process that wrote a result without an exit code still watches over its job."""
    if result.host == socket.gethostname():
        return process_alive(result.pid, result.started)
    try:
        return time.time() - path.stat().st_mtime < STALE_SEC
    except OSError:
        return False


def process_alive(pid: int, seen_at: float) -> bool:
    """Whether the process that had this number at that time still lives; another one may have it by now."""
    try:
        process = psutil.Process(pid)
        return (
            process.create_time() <= seen_at + _CLOCK_TOLERANCE_SEC
            and process.status() != psutil.STATUS_ZOMBIE
        )
    except psutil.NoSuchProcess:
        return False

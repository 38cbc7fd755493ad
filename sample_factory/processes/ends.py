"""Waiting for the end of any process, not only of children.

`bench` watches programs with it. A process is held by a descriptor, so its number cannot come to mean
another one meanwhile; the descriptor becomes readable when the process ends, also before it is reaped.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Iterable


class ProcessHandle:
    """A process that lived when the handle was made.

    Raises:
        ProcessLookupError: it had ended before.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = os.pidfd_open(pid)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def wait(self, timeout: float) -> bool:
        """Waits at most so many seconds; whether the process has ended."""
        return bool(self._poll.poll(timeout * 1000))

    def close(self) -> None:
        """Gives the descriptor back."""
        os.close(self._fd)


def wait_for_ends(pids: Iterable[int], timeout: float) -> None:
    """Returns when all of these processes have ended, at the latest after so many seconds."""
    deadline = time.monotonic() + timeout
    for pid in pids:
        with contextlib.suppress(ProcessLookupError), contextlib.closing(ProcessHandle(pid)) as process:
            process.wait(max(0.0, deadline - time.monotonic()))

"""An event between processes that happens once: a stop, a common start.

Waiting for it ends the moment it happens, and never outlasts a deadline. It is the closing of a pipe, which
the kernel tells everybody who reads from it, also when whoever would have set the event has been killed.

Invariant: once set, it stays set for all processes.
"""

from __future__ import annotations

import os
import select
from multiprocessing import reduction
from typing import Any


class OneTimeEvent:
    """Made by the process that sets it; other processes get it as an argument, and wait."""

    def __init__(self) -> None:
        read_fd, self._write_fd = os.pipe2(os.O_CLOEXEC)
        self._read_from(read_fd)

    def _read_from(self, read_fd: int) -> None:
        self._read_fd = read_fd
        self._poll = select.poll()
        self._poll.register(read_fd, select.POLLIN)

    def set(self) -> None:
        """Makes it happen; a second time changes nothing."""
        if self._write_fd >= 0:
            os.close(self._write_fd)
            self._write_fd = -1

    def wait(self, timeout: float) -> bool:
        """Waits at most so many seconds; whether it has happened."""
        return bool(self._poll.poll(timeout * 1000))

    def __reduce__(self) -> tuple[Any, ...]:
        return _attach, (reduction.DupFd(self._read_fd),)

    def close(self) -> None:
        """Sets it, and gives back what this process holds."""
        self.set()
        if self._read_fd >= 0:
            os.close(self._read_fd)
            self._read_fd = -1


def _attach(dup_fd: Any) -> OneTimeEvent:
    event = OneTimeEvent.__new__(OneTimeEvent)
    event._write_fd = -1
    event._read_from(dup_fd.detach())
    return event

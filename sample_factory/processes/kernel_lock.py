"""A lock between processes that the kernel releases when its holder dies.

Semaphores and mutexes in shared memory stay locked when their holder is killed; a POSIX record lock does not.
It excludes processes, not threads of one process, and costs two system calls. Use it for short sections that
wait for nothing, so that a live holder always leaves soon.
"""

from __future__ import annotations

import fcntl
import os
from multiprocessing import reduction
from types import TracebackType
from typing import Any


class KernelLock:
    """`with lock:` excludes every other process that holds the same (pickled) lock."""

    def __init__(self) -> None:
        self._fd = os.memfd_create("sample_factory_lock", os.MFD_CLOEXEC)

    def __enter__(self) -> KernelLock:
        fcntl.lockf(self._fd, fcntl.LOCK_EX)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def __reduce__(self) -> tuple[Any, ...]:
        return _attach, (reduction.DupFd(self._fd),)

    def close(self) -> None:
        """Closes the descriptor (and with it releases the lock, if held)."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _attach(dup_fd: Any) -> KernelLock:
    lock = KernelLock.__new__(KernelLock)
    lock._fd = dup_fd.detach()
    return lock


class NoLock:
    """The same interface for components that share one process and one thread."""

    def __enter__(self) -> NoLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def close(self) -> None:
        """Nothing to close."""

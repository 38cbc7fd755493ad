"""Python stacks of other processes: of one that hangs, on request, and of one that crashes, by itself.

The watching process makes a `StackFile` and sends it along when it starts the other one, which calls
`write_stacks_to`. The handlers are the interpreter's own and work while the process is busy in a library.

Invariant: what is taken was written since the last look.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from multiprocessing import reduction
from typing import Any

STACK_SIGNAL = signal.SIGUSR2
STACK_WAIT_SEC = 1.0
MAX_STACK_BYTES = 1 << 20


class StackFile:
    """Where one process writes its stacks; anonymous memory, gone with its last user."""

    def __init__(self) -> None:
        self._fd = os.memfd_create("sample_factory_stack", os.MFD_CLOEXEC)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unwrap, (reduction.DupFd(self._fd),)

    def ask(self, process: Any) -> str:
        """The stack of a running process, as it is now; empty if it does not answer in time."""
        self.take()
        os.kill(process.pid, STACK_SIGNAL)
        process.join(STACK_WAIT_SEC)  # the handler writes at once; a dead process ends the wait
        return self.take()

    def take(self) -> str:
        """What was written since the last look, also by a process that has crashed."""
        stack = os.pread(self._fd, MAX_STACK_BYTES, 0).decode(errors="replace")
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)  # the writer shares this offset
        return stack

    def close(self) -> None:
        """Closes the descriptor of this process."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _unwrap(dup_fd: Any) -> Any:
    return dup_fd


def write_stacks_to(fd: int) -> None:
    """Makes this process write its stack when asked, and when a library crashes it."""
    faulthandler.register(STACK_SIGNAL, file=fd, all_threads=True)
    faulthandler.enable(file=fd, all_threads=True)

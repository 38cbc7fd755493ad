"""How a session ends: exit statuses, and the signals that ask for an end.

Invariant: a signal handler only takes note; the main loop acts on it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any


class ExitStatus(IntEnum):
    """Exit codes of a training run."""

    SUCCESS = 0
    FAILURE = 1
    INTERRUPTED = 2  # Ctrl+C; the run can be resumed
    REQUEUE = 75  # told to leave by SIGTERM or SIGUSR1; a scheduler should start the same command again


class Signals:
    """What the outside world has asked for."""

    def __init__(self) -> None:
        self.status: ExitStatus | None = None
        self.count = 0

    def handle(self, number: int, _frame: Any) -> None:
        """Only takes note; the main loop acts."""
        self.count += 1
        self.status = ExitStatus.INTERRUPTED if number == signal.SIGINT else ExitStatus.REQUEUE
        if self.count > 2:
            raise KeyboardInterrupt


@contextmanager
def catch_signals() -> Iterator[Signals]:
    """Turns Ctrl+C, SIGTERM and SIGUSR1 into notes for the main loop."""
    signals = Signals()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    previous = {number: signal.signal(number, signals.handle) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

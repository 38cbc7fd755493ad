"""Exit codes of the benchmark commands, and the error that carries one to the command line."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit status says."""

    OK = 0
    RUN_FAILED = 1
    USAGE = 2
    NOTHING_FOUND = 3
    GATE_FAILED = 4
    TIME_LIMIT = 75  # EX_TEMPFAIL: start the same command again
    INTERRUPTED = 130


class BenchmarkError(Exception):
    """A command cannot do what it was asked; the message is one sentence for the user."""

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.exit_code = exit_code

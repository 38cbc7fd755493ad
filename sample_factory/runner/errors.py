"""What the launcher tells its caller: exit codes, and errors that are one sentence for the user.

`run.main` catches `RunnerError`, shows it and leaves with its exit code; nobody sees a traceback for a
typo.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the launcher, and of jobs where it gives them a meaning of their own."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOTHING_FOUND = 3
    REQUEUE = 75  # stopped by a time limit or pre-empted: start the same command again
    INTERRUPTED = 130


class RunnerError(Exception):
    """A command line or description that can't be used; the message is one sentence."""

    exit_code = ExitCode.USAGE


class DescriptionImportError(RunnerError):
    """The module that `--run` names can't be imported; v1 left with exit code 1 too."""

    exit_code = ExitCode.FAILED


class NoRunFoundError(RunnerError):
    """There is no manifest where one was expected."""

    exit_code = ExitCode.NOTHING_FOUND

"""The error that the looking commands report to people, and how a command ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from sample_factory.benchmark.errors import BenchmarkError

NOTHING_FOUND = 3
INTERRUPTED = 130


class ExperimentsError(Exception):
    """A command cannot do what it was asked; the message is one sentence for the user."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def run_command(command: Callable[[], int]) -> int:
    """Runs a command; a user's mistake becomes one line on stderr and an exit code."""
    try:
        return command()
    except ExperimentsError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except BenchmarkError as error:
        sys.stderr.write(f"error: {error}\n")
        return int(error.exit_code)
    except BrokenPipeError:
        # `sf ls | head` has read enough; flushing at exit would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED

"""What goes wrong with a configuration, and how a user is told.

Entry points catch `ConfigError` and hand it to `report_and_exit`; nobody sees a traceback for a typo.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NoReturn

USAGE_ERROR = 2  # the exit code argparse uses too


class ConfigError(ValueError):
    """A configuration that can't be used; `problems` holds one sentence for each reason."""

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


def report_and_exit(error: ConfigError) -> NoReturn:
    """Show every problem on standard error, one line each, and leave with exit code 2."""
    for problem in error.problems:
        sys.stderr.write(f"error: {problem}\n")
    sys.exit(USAGE_ERROR)

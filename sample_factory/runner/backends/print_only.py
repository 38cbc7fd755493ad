"""Prints commands instead of running them: `--runner=print` and `--dry_run`.

One command per line, quoted for a shell, ready for GNU parallel or bash. Nothing is written to disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from sample_factory.runner.commands import JobCommands
from sample_factory.runner.jobs import Job


def print_commands(jobs: Iterable[Job], commands: JobCommands, stream: TextIO) -> None:
    """Print what would run."""
    for job in jobs:
        stream.write(commands.printed(job) + "\n")

"""Which code a session ran: the commit of the working directory's git checkout, and changes to it.

Attached to every parsed configuration and written next to it. Never fails and never takes longer than its
time limits: a missing git, or no checkout at all, is a normal answer.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

UNKNOWN_HASH = "unknown"
NO_REPOSITORY = "not a git repository"
_MAX_LEVELS = 20
_QUERY_TIMEOUT_SEC = 1.0
_DIFF_TIMEOUT_SEC = 10.0  # a diff reads every changed file


def git_checkout(start: Path) -> Path | None:
    """The nearest directory at or above `start` that is a git checkout."""
    candidates = [start, *start.parents][:_MAX_LEVELS]
    # In a linked worktree `.git` is a file, so only its existence counts.
    return next((directory for directory in candidates if (directory / ".git").exists()), None)


def git_identity(start: Path) -> tuple[str, str]:
    """Commit hash and address of the repository around `start`, or the words for having none."""
    checkout = git_checkout(start)
    if checkout is None:
        return UNKNOWN_HASH, NO_REPOSITORY
    commit = _git(checkout, _QUERY_TIMEOUT_SEC, "rev-parse", "HEAD")
    address = _git(checkout, _QUERY_TIMEOUT_SEC, "config", "--get", "remote.origin.url")
    return (commit or "").strip() or UNKNOWN_HASH, _without_login((address or "").strip()) or NO_REPOSITORY


def git_diff(start: Path) -> str | None:
    """Uncommitted changes in the checkout around `start`; None outside of one."""
    checkout = git_checkout(start)
    return None if checkout is None else _git(checkout, _DIFF_TIMEOUT_SEC, "diff", "HEAD")


def _git(checkout: Path, timeout_sec: float, *arguments: str) -> str | None:
    command = ["git", "-C", str(checkout), *arguments]
    try:
        result = subprocess.run(
            command, capture_output=True, timeout=timeout_sec, check=True, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.decode(errors="replace")


def _without_login(address: str) -> str:
    return re.sub(r"(?<=://)[^/@]*@", "", address)

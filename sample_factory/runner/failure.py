"""Finds the line of a log that says why a job failed.

The engine puts it into the manifest, so that tables show the reason and nobody has to read the log first.
Invariant: only what the last attempt printed is looked at.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

_TAIL_BYTES = 64 * 1024
_LONGEST = 300
_ATTEMPT = re.compile(r"^=== attempt \d+ on .* ===$", re.MULTILINE)
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TRACEBACK = "Traceback (most recent call last)"
_COMPLAINT = re.compile(r"(?:error|exception|fatal)\s*:", re.IGNORECASE)


def root_error(log: Path, exit_code: int | None, detail: str = "") -> str:
    """One line about why a job failed.

    Args:
        log: what the job printed.
        exit_code: of its command; negative for a signal, None when nobody knows.
        detail: what the back end says about the end.
    """
    ending = detail or _ending(exit_code)
    cause = cause_in(last_attempt(log))
    return f"{cause} ({ending})" if cause else ending


def last_attempt(log: Path) -> str:
    """The end of what the newest attempt printed."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return _ATTEMPT.split(text)[-1]


def cause_in(text: str) -> str:
    """The last exception with a traceback, else the last complaint, else the last line."""
    lines = [line.rstrip() for line in _COLOURS.sub("", text).splitlines() if line.strip()]
    complaints = [line for line in lines if _COMPLAINT.search(line)]
    found = (_exceptions(lines) or complaints or lines or [""])[-1].strip()
    return found if len(found) <= _LONGEST else found[: _LONGEST - 3] + "..."


def _exceptions(lines: list[str]) -> list[str]:
    """The line that ends each traceback: the first one after its head that is not indented."""
    found = []
    inside = False
    for line in lines:
        if _TRACEBACK in line:
            inside = True
        elif inside and not line[0].isspace():
            found.append(line)
            inside = False
    return found


def _ending(exit_code: int | None) -> str:
    if exit_code is None:
        return "it ended without a result"
    if exit_code < 0 or exit_code > 128:
        number = -exit_code if exit_code < 0 else exit_code - 128
        try:
            name = signal.Signals(number).name
        except ValueError:
            return f"exit code {exit_code}"
        hint = ", perhaps out of memory" if number == signal.SIGKILL else ""
        return f"killed by {name}{hint}"
    return f"exit code {exit_code}"

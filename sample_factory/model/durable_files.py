"""Files that are either wholly there or not at all, whatever happens in between.

The checkpoint store writes through `write_durably`. Invariant: a file's name appears only after its data is
on the disk; a process or machine that dies earlier leaves a temporary file that no reader looks at.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path

TEMPORARY_PREFIX = ".temp_"


def write_durably(path: Path, data: bytes) -> None:
    """Creates or replaces a file in one step.

    Raises:
        OSError: the file is as it was before, and nothing else is left behind.
    """
    temporary = path.parent / f"{TEMPORARY_PREFIX}{path.name}_{uuid.uuid4().hex}"
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # also Ctrl+C: whatever stopped the write, no half-written file may stay
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    flush_directory(path.parent)


def flush_directory(directory: Path) -> None:
    """Makes names in a directory survive a power cut, where the system can."""
    if os.name == "nt":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(directory: Path) -> list[Path]:
    """Deletes temporary files that a process left when it died, and says which; for the only writer."""
    leftovers = sorted(directory.glob(f"{TEMPORARY_PREFIX}*"))
    for path in leftovers:
        path.unlink(missing_ok=True)
    return leftovers


def set_aside(path: Path, suffix: str) -> Path:
    """Renames a file to `<name><suffix>`, with a number if that exists, so nothing is overwritten."""
    target = path.with_name(path.name + suffix)
    number = 2
    while target.exists():
        target = path.with_name(f"{path.name}{suffix}{number}")
        number += 1
    path.rename(target)
    return target

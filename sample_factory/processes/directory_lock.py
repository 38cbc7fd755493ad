"""Keeps two runs out of one directory, and tells others who is in there."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from types import TracebackType

LOCK_FILE = ".lock"


class DirectoryInUseError(RuntimeError):
    """The directory can't be had: another live process holds it, or nothing can be written there."""


class DirectoryLock:
    """Held for as long as the process lives; the kernel releases it, also after `kill -9`."""

    def __init__(self, directory: Path, flag: str):
        self._path = directory / LOCK_FILE
        self._flag = flag
        self._fd = -1

    def __enter__(self) -> DirectoryLock:
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DirectoryInUseError(
                f"{self._path.parent} can't be written ({error.strerror}); make room there or choose another "
                f"{self._flag}."
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._fd)
            raise DirectoryInUseError(
                f"{self._path.parent} is in use by process {holder}; stop it or choose another {self._flag}."
            ) from None
        with contextlib.suppress(OSError):  # a full disk: the lock holds, only its holder's number is unknown
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)


def lock_holder(directory: Path) -> int | None:
    """The process of this machine that holds a directory, or None.

    Looks only: trying the lock would, for a moment, keep out a run that is just starting.
    """
    path = directory / LOCK_FILE
    try:
        pid = int(path.read_text(encoding="ascii"))
        lock = path.stat()
    except (OSError, ValueError):
        return None
    files = Path(f"/proc/{pid}/fd")
    try:
        links = list(files.iterdir())
    except PermissionError:
        return pid  # somebody else's process; that it lives is all that can be known
    except OSError:
        return None
    return pid if any(_is_same_file(link, lock) for link in links) else None


def _is_same_file(link: Path, lock: os.stat_result) -> bool:
    """Whether an open file is the lock; a number used again by another process does not have it open."""
    try:
        return os.readlink(link).endswith(f"/{LOCK_FILE}") and os.path.samestat(link.stat(), lock)
    except OSError:
        return False

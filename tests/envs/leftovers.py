"""What an environment may leave behind when it is closed: nothing.

`nothing_left_behind` wraps whatever makes and closes environments. Other programs of the machine come and go
at the same time, so shared memory counts as left only if no living process uses it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

SHARED_MEMORY = Path("/dev/shm")
GRACE_SEC = 5.0  # for what ends by itself once it is told to


@contextlib.contextmanager
def nothing_left_behind(what: str) -> Iterator[None]:
    """Asserts that no process, thread, shared memory or file in the working directory outlives the block."""
    with tempfile.TemporaryDirectory(prefix="leftovers_") as directory, contextlib.chdir(directory):
        before = _processes() | _threads() | _shared_memory()
        yield
        deadline = time.monotonic() + GRACE_SEC
        while left := _new_since(before):
            assert time.monotonic() < deadline, f"{what} left behind {sorted(left)}"
            time.sleep(0.02)
        assert os.listdir(directory) == [], f"{what} wrote into the working directory"


def _new_since(before: set[str]) -> set[str]:
    left = (_processes() | _threads()) - before
    memory = _shared_memory() - before
    return left | (memory - _mapped_by_anybody() if memory else set())


def _processes() -> set[str]:
    found = set()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE:
                found.add(f"process {child.pid} {child.name()}")
    return found


def _threads() -> set[str]:
    return {f"thread {thread.ident} {thread.name}" for thread in threading.enumerate()}


def _shared_memory() -> set[str]:
    return {str(path) for path in SHARED_MEMORY.iterdir()} if SHARED_MEMORY.is_dir() else set()


def _mapped_by_anybody() -> set[str]:
    names = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            names |= {mapped.path for mapped in process.memory_maps()}
    return names

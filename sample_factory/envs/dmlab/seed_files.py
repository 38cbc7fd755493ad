"""Text files of level seeds that many processes append to and read at the same time.

One seed per line, first on the line; the level cache keeps what is compiled and what is used in such files.
Processes share nothing else: no parent has to hand out counters, and a killed process leaves no lock behind.

Invariant: a file only grows, by whole lines, under an exclusive lock on itself.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

SEED_LIMIT = 2**31 - 1  # seeds are drawn from [0, SEED_LIMIT)


class SeedFile:
    """One file, and how far this object has read it.

    Args:
        path: created with its folders when the first line is written.
        fields: how many words a complete line has; shorter ones were cut off by a crash and are skipped.
    """

    def __init__(self, path: Path, fields: int) -> None:
        self.path = path
        self._fields = fields
        self._offset = 0

    @contextmanager
    def locked(self) -> Iterator[BinaryIO]:
        """Excludes every other process and thread that locks the file; gives it opened for `append`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a+b") as file:
            # The lock belongs to this open file, not to the process, so it works between threads too.
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def append(self, file: BinaryIO, line: str) -> None:
        """Adds a line to the file that `locked` gave."""
        end = file.seek(0, os.SEEK_END)
        if end > 0:
            file.seek(end - 1)
            if file.read(1) != b"\n":
                line = "\n" + line
        file.write((line + "\n").encode())
        file.flush()

    def new_seeds(self) -> np.ndarray:
        """Seeds `int32[n]` of the lines that were added since the last call; needs no lock."""
        try:
            with open(self.path, "rb") as file:
                if os.fstat(file.fileno()).st_size < self._offset:
                    self._offset = 0  # somebody unpacked another cache over this one
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return np.empty(0, np.int32)
        # What follows the last line break is still being written.
        text = text[: text.rfind(b"\n") + 1]
        self._offset += len(text)
        return np.array([seed for line in text.splitlines() for seed in self._seed_in(line)], np.int32)

    def _seed_in(self, line: bytes) -> Iterator[int]:
        words = line.split()
        if len(words) >= self._fields and words[0].isdigit() and int(words[0]) < SEED_LIMIT:
            yield int(words[0])

"""Copies what a script prints into its `cout.txt`."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


class _Tee(io.TextIOBase):
    """A stream that also writes to a file; everything else is the stream's own."""

    def __init__(self, stream: TextIO, copy: TextIO) -> None:
        self._stream, self._copy = stream, copy

    def write(self, text: str) -> int:
        """Writes to both."""
        self._copy.write(text)
        return self._stream.write(text)

    def flush(self) -> None:
        """Flushes both."""
        self._copy.flush()
        self._stream.flush()

    def isatty(self) -> bool:
        """Progress bars go on looking as they did."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """For child processes; what they print is not copied."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's."""
        return self._stream.encoding


@contextmanager
def output_copied_to(path: Path, header: str) -> Iterator[None]:
    """Copies stdout and stderr of this process into a file, below a header line."""
    stdout, stderr = sys.stdout, sys.stderr
    with path.open("a", encoding="utf-8", buffering=1) as copy:
        copy.write(f"{header}\n")
        sys.stdout, sys.stderr = _Tee(stdout, copy), _Tee(stderr, copy)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = stdout, stderr

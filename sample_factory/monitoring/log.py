"""The project's one logger: coloured lines on stderr, plain lines in the experiment's `sf_log.txt`.

The session calls `init_logging`, every worker process `init_worker_logging`; all others ask for `logger()`.
All processes append to the same file, one `write` per record, so lines never interleave within a line.

Invariant: logging never raises into training, and no line shows the value of a secret environment variable.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

LOGGER_NAME = "sample_factory"
LOG_FILE_NAME = "sf_log.txt"

_LINE_FORMAT = "[%(asctime)s][%(process)05d] %(message)s"
_SECRET_SUFFIXES = ("_API_KEY", "_TOKEN")
# Shorter values are switches ("1", "true"), and hiding them would eat ordinary words.
_SHORTEST_SECRET = 8
_RESET = "\x1b[0m"
_COLOURS = {
    logging.DEBUG: "\x1b[2m",
    logging.INFO: "\x1b[36m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[1;31m",
}


def logger() -> logging.Logger:
    """The project's logger; silent until `init_logging` or `init_worker_logging` has run."""
    return logging.getLogger(LOGGER_NAME)


def init_logging(experiment_dir: Path | None, log_to_file: bool) -> None:
    """Sets up logging in the main process; a second call replaces what the first set up.

    Args:
        experiment_dir: where `sf_log.txt` lives; None for commands that belong to no experiment.
        log_to_file: False keeps everything on the screen (`--log_to_file`).
    """
    _install([*_file_handlers(experiment_dir, log_to_file), ConsoleHandler()])


def init_worker_logging(experiment_dir: Path | None, log_to_file: bool, *, console: bool = True) -> None:
    """Sets up logging in a worker process.

    Args:
        experiment_dir: as in `init_logging`.
        log_to_file: as in `init_logging`.
        console: False while the main process draws a live display, which foreign lines would tear.
    """
    handlers = _file_handlers(experiment_dir, log_to_file)
    _install([*handlers, ConsoleHandler()] if console else handlers)


def close_logging() -> None:
    """Closes the log file and detaches the handlers."""
    _install([])


@contextmanager
def console_diverted(write_line: Callable[[str], None]) -> Iterator[None]:
    """Sends console lines to `write_line` instead of stderr, while something else owns the screen."""
    handlers = [handler for handler in logger().handlers if isinstance(handler, ConsoleHandler)]
    for handler in handlers:
        handler.write_line = write_line
    try:
        yield
    finally:
        for handler in handlers:
            handler.write_line = None


def redact(text: str) -> str:
    """Replaces the values of environment variables that hold secrets by the variables' names."""
    secrets = [
        (value, name)
        for name, value in os.environ.items()
        if name.upper().endswith(_SECRET_SUFFIXES) and len(value) >= _SHORTEST_SECRET
    ]
    # Longest first: one secret may begin with another.
    for value, name in sorted(secrets, key=lambda secret: len(secret[0]), reverse=True):
        text = text.replace(value, f"<{name}>")
    return text


class _LineFormatter(logging.Formatter):
    """`[asctime][pid] message`, with secrets removed also from tracebacks."""

    def __init__(self, coloured: bool) -> None:
        super().__init__(_LINE_FORMAT)
        self.coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        """The finished line, without its newline."""
        line = redact(super().format(record))
        if not self.coloured:
            return line
        return f"{_COLOURS.get(record.levelno, '')}{line}{_RESET}"


class ConsoleHandler(logging.Handler):
    """Lines on stderr, or wherever `console_diverted` sends them."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(level=logging.INFO)
        self.write_line: Callable[[str], None] | None = None
        self._stream = stream
        self.setFormatter(_LineFormatter(coloured=wants_colour(self._target())))

    def _target(self) -> TextIO:
        # Looked up each time because tests and notebooks replace sys.stderr.
        return self._stream if self._stream is not None else sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one line; a closed or broken terminal is no reason to stop training."""
        try:
            line = self.format(record)
            if self.write_line is not None:
                self.write_line(line)
                return
            target = self._target()
            target.write(line + "\n")
            target.flush()
        except (OSError, ValueError):
            self.handleError(record)


class AppendHandler(logging.Handler):
    """Appends each record to a file with a single `write`, shared safely by many processes."""

    def __init__(self, path: Path) -> None:
        super().__init__(level=logging.DEBUG)
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._failing = False
        self.setFormatter(_LineFormatter(coloured=False))

    def emit(self, record: logging.LogRecord) -> None:
        """Appends one record; says once when the disk refuses, and keeps trying."""
        try:
            os.write(self._descriptor, (self.format(record) + "\n").encode("utf-8", "replace"))
            self._failing = False
        except OSError as error:
            if not self._failing:
                self._failing = True
                sys.stderr.write(
                    f"Cannot write {self._path} ({error.strerror}); training goes on without it.\n"
                )

    def close(self) -> None:
        """Closes the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        super().close()


def wants_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal whose user has not asked for plain text (NO_COLOR)."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _file_handlers(experiment_dir: Path | None, log_to_file: bool) -> list[logging.Handler]:
    if experiment_dir is None or not log_to_file:
        return []
    try:
        experiment_dir.mkdir(parents=True, exist_ok=True)
        return [AppendHandler(experiment_dir / LOG_FILE_NAME)]
    except OSError as error:
        sys.stderr.write(
            f"Cannot open {experiment_dir / LOG_FILE_NAME} ({error.strerror}); logging to the screen only.\n"
        )
        return []


def _install(handlers: list[logging.Handler]) -> None:
    target = logger()
    for old in list(target.handlers):
        target.removeHandler(old)
        old.close()
    for handler in handlers:
        target.addHandler(handler)
    target.setLevel(logging.DEBUG)
    # The root logger belongs to the user's program; without this each line would appear twice there.
    target.propagate = False

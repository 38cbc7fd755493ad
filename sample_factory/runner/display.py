"""What a user sees while jobs run: a live table on a terminal, plain lines everywhere else.

The engine reports to one of the two displays; `--status` prints the same table. Everything goes to
standard error, except that table. Invariant: every failed job appears with its reason, in the lines, in
the live table and in the summary.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TextIO

from sample_factory.runner.engine import Display
from sample_factory.runner.manifest import JobRecord, State

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

_COLOURS = {
    State.RUNNING: "cyan",
    State.COMPLETED: "green",
    State.FAILED: "bold red",
    State.INTERRUPTED: "yellow",
    State.TIMEOUT: "yellow",
}
_HEADINGS = ("job", "state", "attempts", "where", "time", "reason")
_REFRESH_SEC = 0.5


class Row(NamedTuple):
    """One job in a table."""

    job: str
    state: str
    attempts: str
    where: str
    time: str
    reason: str


class PlainDisplay:
    """One line for each change."""

    def __init__(self, stream: TextIO | None = None):
        self._stream = stream if stream is not None else sys.stderr

    def changed(self, record: JobRecord) -> None:
        """Say what became of a job."""
        row = _row(record, time.time())
        where = f" [{row.where}]" if row.where and record.state.is_open else ""
        reason = f": {record.error}" if record.error else ""
        self.note(f"{record.state:<11} {record.id}{where}{reason}")

    def refresh(self, records: Sequence[JobRecord]) -> None:
        """Nothing: lines appear when something changes."""

    def note(self, text: str) -> None:
        """Print a line with the time of day."""
        self._stream.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        self._stream.flush()


class LiveDisplay:
    """A table that is drawn again and again; unfinished and failed jobs come first."""

    def __init__(self, live: Live):
        self._live = live
        self._drawn_at = 0.0

    def changed(self, record: JobRecord) -> None:
        """Failures also stay on the screen above the table."""
        if record.state is State.FAILED:
            self.note(f"FAILED {record.id}: {record.error}")

    def refresh(self, records: Sequence[JobRecord]) -> None:
        """Draw, but not more often than eyes can follow."""
        now = time.monotonic()
        if now - self._drawn_at >= _REFRESH_SEC:
            self._drawn_at = now
            # Title, heading, border and the prompt below need the rest of the screen.
            self._live.update(rich_table(records, self._live.console.height - 8), refresh=True)

    def note(self, text: str) -> None:
        """A line above the table."""
        self._live.console.print(text, markup=False, highlight=False)


@contextmanager
def open_display() -> Iterator[Display]:
    """The display that fits where standard error goes."""
    if not sys.stderr.isatty():
        yield PlainDisplay()
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), auto_refresh=False, redirect_stdout=False) as live:
        yield LiveDisplay(live)


def counts(records: Sequence[JobRecord]) -> str:
    """How many jobs are in which state."""
    number = Counter(record.state for record in records)
    return ", ".join(f"{number[state]} {state.lower()}" for state in State if number[state])


def summary(records: Sequence[JobRecord]) -> list[str]:
    """How a launch ended: the counts, and each job that did not complete with its reason and log."""
    lines = [f"{len(records)} jobs: {counts(records)}"]
    for record in records:
        if record.state in (State.FAILED, State.TIMEOUT, State.INTERRUPTED):
            log = f" (log: {record.last_attempt.log})" if record.attempts and record.last_attempt.log else ""
            lines.append(f"  {record.state} {record.id}: {record.error}{log}")
    return lines


def text_table(records: Sequence[JobRecord]) -> list[str]:
    """All jobs as aligned text."""
    rows = [_HEADINGS, *(_row(record, time.time()) for record in records)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def rich_table(records: Sequence[JobRecord], num_rows: int) -> Table:
    """The most interesting jobs as a table of rich: failed ones, then running ones, then the newest."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=counts(records), title_justify="left", expand=True)
    for heading in _HEADINGS:
        table.add_column(
            heading, overflow="ellipsis", no_wrap=True, ratio=3 if heading in ("job", "reason") else 1
        )
    for record in _interesting(records)[: max(num_rows, 3)]:
        row = _row(record, time.time())
        style = _COLOURS.get(record.state, "dim")
        table.add_row(*(Text(cell, style=style if cell == row.state else "") for cell in row))
    return table


def _interesting(records: Sequence[JobRecord]) -> list[JobRecord]:
    order = (State.FAILED, State.RUNNING, State.SUBMITTED, State.TIMEOUT, State.INTERRUPTED, State.QUEUED)
    rank = {state: position for position, state in enumerate(order)}
    return sorted(records, key=lambda record: rank.get(record.state, len(order)))


def _row(record: JobRecord, now: float) -> Row:
    if not record.attempts:
        return Row(record.id, record.state, "0", "", "", record.error)
    attempt = record.last_attempt
    where = f"{attempt.backend} {attempt.id}".strip()
    if attempt.gpu is not None:
        where += f" gpu {attempt.gpu}"
    elapsed = (attempt.stop or now) - attempt.start
    return Row(record.id, record.state, str(len(record.attempts)), where, _duration(elapsed), record.error)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"

"""A long undisturbed run, watched for growth: memory and descriptors of every process of the tree.

Memory is the proportional set size (PSS) of what the run itself has written: pages that processes share are
divided between them, so the sum over the tree counts each page once. Pages of files, such as libraries, are
left out: the kernel drops and reads them as it likes, and other programs on the machine share them. Growth
is the slope of a straight line through the readings after a warm-up, with its 95 % interval.

Invariant: every process of the tree is counted in every reading, under the role it has.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sample_factory.bench.chaos import START_TIMEOUT_SEC
from sample_factory.bench.watched_run import WatchedRun, descriptors

READ_EVERY_SEC = 2.0
WARM_UP_SHARE = 0.25  # of the run: allocators, caches and statistics windows fill in the beginning
BLOCKS = 20  # neighbouring readings are alike, so the interval is taken over the means of blocks
STUDENT_T = 2.101  # quantile 0.975 with BLOCKS - 2 degrees of freedom
TREE = "whole tree"
_WRITTEN = ("Pss_Anon:", "Pss_Shmem:")


@dataclass
class Usage:
    """One reading of one role, summed over its processes."""

    pss_mb: float = 0.0
    descriptors: int = 0
    processes: int = 0


@dataclass(frozen=True)
class Growth:
    """How one role's usage changed after the warm-up."""

    role: str
    processes: int
    first_mb: float
    last_mb: float
    slope_mb_per_hour: float
    slope_interval: float  # half width, 95 %
    descriptors_first: int
    descriptors_last: int
    descriptors_most: int


@dataclass
class SoakRecording:
    """Everything that was seen of a soak."""

    seconds: list[float] = field(default_factory=list)
    usages: list[dict[str, Usage]] = field(default_factory=list)
    env_steps: int = 0
    exit_code: int | None = None
    orphans: list[int] = field(default_factory=list)
    shared_memory: list[str] = field(default_factory=list)

    def drop_the_end(self) -> None:
        """Forgets the last readings, in which processes had left, and the one in which the end had begun."""
        whole = np.median([usage[TREE].processes for usage in self.usages]) if self.usages else 0
        while len(self.usages) > 1 and self.usages[-1][TREE].processes < whole:
            self._pop()
        if len(self.usages) > 1:
            self._pop()

    def _pop(self) -> None:
        self.seconds.pop()
        self.usages.pop()

    def by_minute(self) -> list[tuple[int, float, int]]:
        """Minute, megabytes and descriptors of the whole tree, from the first reading of each minute."""
        first: dict[int, Usage] = {}
        for seconds, usage in zip(self.seconds, self.usages, strict=True):
            first.setdefault(int(seconds // 60), usage[TREE])
        return [(minute, round(usage.pss_mb, 1), usage.descriptors) for minute, usage in first.items()]

    def growth(self) -> list[Growth]:
        """The roles and the whole tree, after the warm-up."""
        first = int(len(self.seconds) * WARM_UP_SHARE)
        seconds, usages = self.seconds[first:], self.usages[first:]
        roles = sorted({role for usage in usages for role in usage if role != TREE})
        return [_growth(role, seconds, usages) for role in [*roles, TREE]]


def record_soak(arguments: Sequence[str], output: Path, tell: Callable[[str], None]) -> SoakRecording:
    """Starts a training and watches it until it ends by itself."""
    run, recording = WatchedRun(arguments, output), SoakRecording()
    try:
        run.attach(START_TIMEOUT_SEC)
        next_told = time.monotonic()
        while run.is_running:
            usage = _usage(run)
            if run.is_running:  # processes that are ending are no reading
                recording.seconds.append(run.read().seconds)
                recording.usages.append(usage)
            if time.monotonic() >= next_told:
                next_told = time.monotonic() + 60.0
                tell(f"{usage[TREE].pss_mb:.1f} MB, {usage[TREE].descriptors} descriptors\n")
            run.wait(READ_EVERY_SEC)
        recording.env_steps = run.read().env_steps
        recording.exit_code = run.process.returncode
        recording.orphans, recording.shared_memory = run.leftovers(10.0)
    finally:
        run.end()
    recording.drop_the_end()
    return recording


def _usage(run: WatchedRun) -> dict[str, Usage]:
    found = {TREE: Usage()}
    for member in run.members():
        pss, open_files = _pss_mb(member.pid), descriptors(member.pid)
        for usage in (found.setdefault(member.role, Usage()), found[TREE]):
            usage.pss_mb += pss
            usage.descriptors += open_files
            usage.processes += 1
    return found


def _pss_mb(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return sum(float(line.split()[1]) for line in file if line.startswith(_WRITTEN)) / 1024
    except OSError:
        return 0.0


def _growth(role: str, seconds: Sequence[float], usages: Sequence[dict[str, Usage]]) -> Growth:
    rows = [usage.get(role, Usage()) for usage in usages]
    memory = [row.pss_mb for row in rows]
    slope, interval = line_through(seconds, memory)
    tenth = max(1, len(rows) // 10)
    return Growth(
        role=role,
        processes=rows[-1].processes,
        first_mb=float(np.mean(memory[:tenth])),
        last_mb=float(np.mean(memory[-tenth:])),
        slope_mb_per_hour=slope * 3600,
        slope_interval=interval * 3600,
        descriptors_first=rows[0].descriptors,
        descriptors_last=rows[-1].descriptors,
        descriptors_most=max(row.descriptors for row in rows),
    )


def line_through(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Slope of the least-squares line through block means, and the half width of its 95 % interval."""
    if len(x) < BLOCKS:
        return math.nan, math.nan
    xs = np.array([block.mean() for block in np.array_split(np.asarray(x, float), BLOCKS)])
    ys = np.array([block.mean() for block in np.array_split(np.asarray(y, float), BLOCKS)])
    centred = xs - xs.mean()
    spread = float((centred**2).sum())
    slope = float((centred * ys).sum() / spread)
    residuals = ys - ys.mean() - slope * centred
    error = math.sqrt(float((residuals**2).sum()) / (BLOCKS - 2) / spread)
    return slope, STUDENT_T * error

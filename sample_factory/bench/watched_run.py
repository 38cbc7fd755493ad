"""A training program seen from outside: its processes, its shared numbers, what it leaves behind.

The program is started as a user would start it and knows nothing of being watched: its processes are found
through /proc, its counters through the shared memory that its main process holds. `chaos` and `soak` use it.

Invariant: watching changes nothing in the program, and costs it less than a hundredth of a core.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sample_factory.algorithms.appo.board import Board
from sample_factory.algorithms.appo.plan import Plan
from sample_factory.algorithms.appo.site import NUMBERS_LABEL, WEIGHTS_LABEL, number_specs
from sample_factory.algorithms.appo.trajectories import SlotState
from sample_factory.bench import pole_game
from sample_factory.config.parsing import parse_args
from sample_factory.config.precedence import resolve
from sample_factory.processes.ends import ProcessHandle, wait_for_ends
from sample_factory.processes.shared_memory import ArraySpec, SharedArrays
from sample_factory.processes.worker import TITLE_PREFIX

MODULE = "sample_factory.bench.fault_session"
MARK = "SF_BENCH_MARK"  # environment variable that tells a program's processes, whoever their parent is now
MAIN, FORK_SERVER = "main", "fork server"
ROLES = {
    f"{TITLE_PREFIX}rollout": "rollout worker",
    f"{TITLE_PREFIX}policy": "policy worker",
    f"{TITLE_PREFIX}learner": "learner",
    pole_game.TITLE: "game",
}
ATTACH_LOOK_SEC = 0.1
_MAX_GENERATIONS = 4
_LONGEST_GAP_SEC = 3.0  # between two looks at the clock; the rest of a longer one is not counted


@dataclass(frozen=True)
class Member:
    """One process of a program."""

    pid: int
    title: str

    @property
    def role(self) -> str:
        """What it is, without its number."""
        return next((role for start, role in ROLES.items() if self.title.startswith(start)), self.title)


@dataclass(frozen=True)
class Reading:
    """The counters at one moment."""

    seconds: float
    env_steps: int  # frames the learner has trained on
    sampled: tuple[int, ...]  # frames each rollout worker has handed over
    version: int  # newest published policy version
    cpu: float  # seconds used by the processes that live now
    filling: int  # slots that some worker holds


class WatchedRun:
    """A running training program."""

    def __init__(self, arguments: Sequence[str], output: Path):
        self.mark = uuid.uuid4().hex
        self.arguments = list(arguments)
        self._plan = Plan.make(resolve(parse_args(self.arguments)), agents_per_env=1, num_gpus=0, seed=0)
        self._shared_memory = set(os.listdir("/dev/shm"))
        environment = {**os.environ, MARK: self.mark, "OMP_NUM_THREADS": "1"}
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", MODULE, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        self._handle = ProcessHandle(self.process.pid)
        self._seconds, self._last_look = 0.0, time.monotonic()
        self._board: Board | None = None

    @property
    def num_components(self) -> int:
        """Workers and learners that a healthy run has."""
        return len(self._plan.component_names())

    @property
    def num_agents(self) -> int:
        """Trajectories that can be under way at the same time."""
        return self._plan.num_workers * self._plan.num_splits * self._plan.agents_per_split

    @property
    def is_running(self) -> bool:
        """Whether the main process lives."""
        return self.process.poll() is None

    def wait(self, seconds: float) -> bool:
        """Waits at most so long; whether the main process has ended."""
        return self._handle.wait(seconds)

    def seconds(self) -> float:
        """Seconds since the start, without those in which this process itself was stopped."""
        now = time.monotonic()
        self._seconds += min(now - self._last_look, _LONGEST_GAP_SEC)
        self._last_look = now
        return self._seconds

    def attach(self, timeout: float) -> None:
        """Waits until the program trains, and finds its counters."""
        while self._board is None or self.read().env_steps == 0:
            if not self.is_running:
                raise RuntimeError(f"the training ended with {self.process.returncode} before it had begun")
            if self.seconds() > timeout:
                raise RuntimeError(f"no training within {timeout:.0f} s")
            self.wait(ATTACH_LOOK_SEC)  # nothing tells from outside that training has begun
            if self._board is None:
                self._map()

    def _map(self) -> None:
        numbers = _open_memfd(self.process.pid, NUMBERS_LABEL)
        weights = _open_memfd(self.process.pid, WEIGHTS_LABEL)
        if numbers is None or weights is None:
            return
        arrays = SharedArrays.of_descriptor(numbers, number_specs(self._plan))
        self._slot_states: np.ndarray = arrays["slot_states"]
        self._version: np.ndarray = SharedArrays.of_descriptor(
            weights, {"current": ArraySpec((1,), "int64")}
        )["current"]
        self._board = Board(arrays)

    def read(self) -> Reading:
        """The counters now; they stay readable after the program has ended."""
        assert self._board is not None, "attach first"
        return Reading(
            seconds=self.seconds(),
            env_steps=int(self._board.env_steps.sum()),
            sampled=tuple(self._board.sampled_frames.tolist()),
            version=int(self._version[0]),
            cpu=sum(cpu_seconds(member.pid) for member in self.members()),
            filling=int((self._slot_states == SlotState.FILLING).sum()),
        )

    def members(self) -> list[Member]:
        """The main process and everything below it."""
        found, generation = [Member(self.process.pid, MAIN)], [self.process.pid]
        for _ in range(_MAX_GENERATIONS):
            generation = [child for parent in generation for child in _children(parent)]
            found += [Member(pid, title) for pid in generation if (title := _title(pid))]
        return found

    def victims(self) -> dict[str, list[Member]]:
        """The processes that may be killed, by role."""
        by_role: dict[str, list[Member]] = {}
        for member in self.members():
            if member.role in ROLES.values():
                by_role.setdefault(member.role, []).append(member)
        return by_role

    def leftovers(self, timeout: float) -> tuple[list[int], list[str]]:
        """Processes still alive `timeout` seconds after the end, and new names in /dev/shm."""
        deadline = time.monotonic() + timeout
        while (orphans := _marked(self.mark)) and time.monotonic() < deadline:
            wait_for_ends(orphans, deadline - time.monotonic())
        new = sorted(set(os.listdir("/dev/shm")) - self._shared_memory)
        return orphans, new

    def end(self) -> None:
        """Kills whatever is left; for a driver that gives up."""
        for pid in [*([self.process.pid] if self.is_running else []), *_marked(self.mark)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(10.0)
        self._handle.close()


def cpu_seconds(pid: int) -> float:
    """CPU time a process has used; 0 if it is gone."""
    try:
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


def descriptors(pid: int) -> int:
    """Open file descriptors of a process; 0 if it is gone."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def _open_memfd(pid: int, label: str) -> int | None:
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            if os.readlink(entry.path).startswith(f"/memfd:{label} "):
                return os.open(entry.path, os.O_RDWR)
    except OSError:  # it is just starting, or has just ended
        pass
    return None


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        return [int(child) for tid in threads for child in _read(f"/proc/{pid}/task/{tid}/children").split()]
    except OSError:
        return []


def _title(pid: int) -> str:
    """The title of a living process; empty for one that has ended."""
    try:
        state = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]
        return "" if state == "Z" else _read(f"/proc/{pid}/comm").strip()
    except OSError:
        return ""


def _marked(mark: str) -> list[int]:
    wanted, found = f"{MARK}={mark}", []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            if wanted in _read(f"/proc/{name}/environ").split("\0") and _title(int(name)):
                found.append(int(name))
        except OSError:
            continue
    return found


def _read(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read()

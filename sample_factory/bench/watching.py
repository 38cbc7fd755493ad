"""Runs a program and watches its whole process tree: steps, CPU time by role, memory.

`speed` says what to run and for how long; `measurement` turns the samples into figures. Everything is read
from outside: the counters in the environments, /proc for CPU time and PSS (shared pages counted once).

Invariant: when `watch` returns or raises, no process and no file of the program is left.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from sample_factory.bench.counting import create_counters, read_counters
from sample_factory.bench.measurement import (
    FOREIGN_LIMIT,
    LEARNER,
    MAIN,
    POLICY,
    ROLLOUT,
    SIMULATORS,
    Sample,
    Window,
    cut_windows,
)
from sample_factory.benchmark.run_record import RUN_FILE, read_json_object
from sample_factory.processes.worker import process_title

SAMPLE_SEC = 0.5
MEMORY_SEC = 2.0
START_LIMIT_SEC = 300.0
STOP_LIMIT_SEC = 30.0
LOG_TAIL_LINES = 12
_ROLE_OF_WORKER = {
    "rollout_worker": ROLLOUT,
    "sampler_worker": ROLLOUT,
    "policy_worker": POLICY,
    "learner": LEARNER,
}


class TrialFailedError(RuntimeError):
    """The measured program ended, or never began to work; the message holds the end of its output."""


@dataclass(frozen=True)
class Timing:
    """How long to look."""

    warm_up_sec: float = 8.0
    window_sec: float = 20.0
    num_windows: int = 3
    num_repeats: int = 2  # in turn: of a window that others disturbed


@dataclass
class Observation:
    """What was seen of one program."""

    windows: list[Window]
    start_sec: float  # from exec to the first SGD step, or to the first environment step
    peak_pss_mb: float
    num_processes: int
    envs_advancing: int  # environments that stepped during the measured time
    activity_sec: dict[str, Any] = field(default_factory=dict)  # by component, as the session booked it


def watch(module: str, flags: Sequence[str], timing: Timing, until_trained: bool) -> Observation:
    """Runs `python -m <module> COUNTERS <flags>` until enough windows have passed.

    Args:
        module: the program.
        flags: its command line, without directories.
        timing: warm-up and windows.
        until_trained: whether the warm-up begins with the first SGD step, seen by the first checkpoint.

    Raises:
        TrialFailedError: with the program's last lines.
    """
    with _program(module, flags) as program:
        start_sec = program.await_work(until_trained)
        windows, advancing = program.observe(time.monotonic() + timing.warm_up_sec, timing)
        program.interrupt()
        return Observation(
            windows=windows,
            start_sec=start_sec,
            peak_pss_mb=program.peak_pss_mb,
            num_processes=program.num_processes,
            envs_advancing=advancing,
            activity_sec=program.activity_sec(),
        )


def watch_in_turn(
    commands: Sequence[tuple[str, Sequence[str]]], timing: Timing, until_trained: bool
) -> list[Observation]:
    """Runs all programs, alive at once but only one awake, a window each, round after round.

    What one costs against another is then the same in a slow minute of the machine as in a fast one. The
    first round, as long as the warm-up, is not measured.

    Args:
        commands: module and flags of each program, as `watch` takes them.
        timing: warm-up, windows, and how often one that others disturbed is measured again.
        until_trained: as in `watch`.

    Raises:
        TrialFailedError: with the last lines of the program that failed.
    """
    with contextlib.ExitStack() as alive:
        programs, seen = [], []
        for module, flags in commands:
            program = alive.enter_context(_program(module, flags))
            start_sec = program.await_work(until_trained)
            program.pause()
            programs.append(program)
            seen.append(Observation([], start_sec, 0.0, 0, 0))
        for program in programs:
            program.observe_awake(timing.warm_up_sec)
        for _ in range(timing.num_windows):
            for program, observation in zip(programs, seen, strict=True):
                window, advancing = program.observe_quietly(timing)
                observation.windows.append(window)
                observation.envs_advancing = max(observation.envs_advancing, advancing)
        for program, observation in zip(programs, seen, strict=True):
            program.resume()
            program.interrupt()
            observation.peak_pss_mb, observation.num_processes = program.peak_pss_mb, program.num_processes
        return seen  # without activities: the stopwatches ran on while their programs slept


@contextmanager
def _program(module: str, flags: Sequence[str]) -> Iterator[_Program]:
    # A scheduler's SIGTERM cleans up as Ctrl+C does, which shells turn off for what runs in the background.
    told_to_leave = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(number, signal.default_int_handler) for number in told_to_leave]
    directory = Path(tempfile.mkdtemp(prefix="sf_speed_"))
    try:
        program = _Program(module, flags, directory)
        try:
            yield program
        finally:
            program.kill()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        for number, handler in zip(told_to_leave, handlers, strict=True):
            signal.signal(number, handler)


class _Program:
    """The measured program and what is known of its processes."""

    def __init__(self, module: str, flags: Sequence[str], directory: Path):
        self.directory = directory
        self.counters = directory / "counters"
        self.peak_pss_mb = 0.0
        self.num_processes = 0
        self._cpu: dict[tuple[int, float], tuple[str, float]] = {}  # of processes that have ended, too
        self._next_look = 0.0
        create_counters(self.counters)
        self.command = [sys.executable, "-m", module, str(self.counters), *flags]
        self._started = time.monotonic()
        with (directory / "output.txt").open("wb") as output:
            self.process = psutil.Popen(
                [*self.command, f"--train_dir={directory / 'train_dir'}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=directory,
                env=_environment(),
            )

    def await_work(self, until_trained: bool) -> float:
        """Seconds until the program did what it is there for."""
        checkpoints = self.directory / "train_dir" / "speed" / "checkpoint_p0"
        while time.monotonic() - self._started < START_LIMIT_SEC:
            self._wait(0.1)
            trained = any(checkpoints.glob("checkpoint_*.pth"))
            if read_counters(self.counters).any() and (trained or not until_trained):
                return time.monotonic() - self._started
        raise TrialFailedError(f"nothing was trained within {START_LIMIT_SEC:.0f} s:\n{self._tail()}")

    def observe(self, begin_sec: float, timing: Timing) -> tuple[list[Window], int]:
        """The windows after `begin_sec`, and how many environments advanced in them."""
        samples: list[Sample] = []
        first_steps = None
        while True:
            self._wait(SAMPLE_SEC)
            samples.append(self._sample())
            if first_steps is None and samples[-1].time_sec >= begin_sec:
                first_steps = read_counters(self.counters)
            windows = cut_windows(samples, begin_sec, timing.window_sec)
            if first_steps is not None and len(windows) >= timing.num_windows:
                break
        last_steps = read_counters(self.counters)
        last_steps[: len(first_steps)] -= first_steps
        return windows, int((last_steps > 0).sum())

    def observe_awake(self, window_sec: float) -> tuple[Window, int]:
        """Wakes the program for one window, and how many environments advanced in it."""
        self.resume()
        windows, advancing = self.observe(time.monotonic() + SAMPLE_SEC, Timing(0.0, window_sec, 1))
        self.pause()
        return windows[0], advancing

    def observe_quietly(self, timing: Timing) -> tuple[Window, int]:
        """The same, repeated if others took too much of the machine; the quietest window counts."""
        tries = [self.observe_awake(timing.window_sec)]
        while tries[-1][0].foreign_cores > FOREIGN_LIMIT and len(tries) <= timing.num_repeats:
            tries.append(self.observe_awake(timing.window_sec))
        return min(tries, key=lambda seen: seen[0].foreign_cores)

    def interrupt(self) -> None:
        """Ctrl+C, so that the program writes its record."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)
        with contextlib.suppress(psutil.TimeoutExpired):
            self.process.wait(STOP_LIMIT_SEC)

    def activity_sec(self) -> dict[str, Any]:
        """Seconds by component, as a training has booked them when it has ended."""
        record = read_json_object(self.directory / "train_dir" / "speed" / RUN_FILE) or {}
        return record.get("activity_sec") or {}

    def pause(self) -> None:
        """Puts the tree to sleep."""
        pause_tree(self._tree())

    def resume(self) -> None:
        """Wakes the tree."""
        resume_tree(self._tree())

    def kill(self) -> None:
        """Ends whatever is left of the tree."""
        left = self._tree()
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=STOP_LIMIT_SEC)

    def _wait(self, seconds: float) -> None:
        try:
            status = self.process.wait(seconds)
        except psutil.TimeoutExpired:
            return
        raise TrialFailedError(f"the program ended with exit code {status}:\n{self._tail()}")

    def _tail(self) -> str:
        lines = (self.directory / "output.txt").read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def _tree(self) -> list[psutil.Process]:
        return tree_of(self.process.pid)

    def _sample(self) -> Sample:
        tree = self._tree()
        self.num_processes = max(self.num_processes, len(tree))
        for process in tree:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                times = process.cpu_times()
                key = process.pid, process.create_time()
                self._cpu[key] = self._role(process), times.user + times.system
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + MEMORY_SEC
            self.peak_pss_mb = max(self.peak_pss_mb, sum(map(pss_mb, tree)))
        cpu_sec = dict.fromkeys((ROLLOUT, POLICY, LEARNER, MAIN, SIMULATORS), 0.0)
        for role, seconds in self._cpu.values():
            cpu_sec[role] += seconds
        return Sample(
            time_sec=now,
            steps=int(read_counters(self.counters).sum()),
            cpu_sec=cpu_sec,
            machine_sec=machine_sec(),
        )

    def _role(self, process: psutil.Process) -> str:
        if process.pid == self.process.pid:
            return MAIN
        name = process.name()
        for worker, role in _ROLE_OF_WORKER.items():
            if name.startswith(process_title(worker)):
                return role
        # The fork server and workers that have not been named yet are Python too; simulators are not.
        return MAIN if name.startswith("python") else SIMULATORS


def _environment() -> dict[str, str]:
    """Ours, with this very package first: the program runs in another directory."""
    package_root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"PYTHONPATH": path}


def tree_of(pid: int) -> list[psutil.Process]:
    """A process and everything below it, parents first; empty when it is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        main = psutil.Process(pid)
        return [main, *main.children(recursive=True)]
    return []


def pause_tree(tree: Sequence[psutil.Process]) -> None:
    """Stops a tree from the top, so that nobody awake misses a child that sleeps."""
    for process in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()


def resume_tree(tree: Sequence[psutil.Process]) -> None:
    """Wakes a tree from the bottom."""
    for process in reversed(tree):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


def machine_sec() -> float:
    """CPU time that all programs of the machine have used, or that its host gave to other machines."""
    busy = psutil.cpu_times()
    stolen = getattr(busy, "steal", 0.0)
    return float(busy.user + busy.nice + busy.system + busy.irq + busy.softirq + stolen)


def pss_mb(process: psutil.Process) -> float:
    """Memory of one process, shared pages counted in parts; 0 when it is gone."""
    try:
        return float(process.memory_full_info().pss) / 2**20
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return 0.0

"""What test processes run; importable, so that it reaches them by name."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.processes.channels import ChannelFullError, PipeChannel, PipeChannels, ReportWriter
from sample_factory.processes.directory_lock import DirectoryInUseError, DirectoryLock
from sample_factory.processes.kernel_lock import KernelLock
from sample_factory.processes.shared_memory import SharedArrays
from sample_factory.processes.worker import WorkerContext


def double_all(arrays: SharedArrays) -> dict[str, list[float]]:
    """Returns what it found and leaves twice that."""
    found = {name: array.ravel().tolist() for name, array in arrays.items()}
    for array in arrays.values():
        array *= 2
    return found


def increment(lock: KernelLock, arrays: SharedArrays, times: int) -> None:
    for _ in range(times):
        with lock:
            seen = int(arrays["counter"][0])
            os.sched_yield()  # invites the others into the critical section
            arrays["counter"][0] = seen + 1


def hold_for_ever(lock: KernelLock, arrays: SharedArrays) -> None:
    with lock:
        arrays["held"][0] = 1
        time.sleep(1000)


def send_groups(channel: PipeChannel, writer_id: int, groups: int, seed: int) -> None:
    """Groups of 1 to 256 records `(writer, group, place in the group, size of the group)`."""
    rng = random.Random(seed)
    for group in range(groups):
        size = rng.choice((1, 2, 3, rng.randint(1, 256), 256))
        _send_when_possible(channel, [(writer_id, group, place, size) for place in range(size)])


def _send_when_possible(channel: PipeChannel, records: list[tuple[int, int, int, int]]) -> None:
    while True:
        try:
            channel.send(records)
            return
        except ChannelFullError:
            os.sched_yield()


def answer_each(channels: PipeChannels) -> None:
    for place, channel in enumerate(channels):
        channel.send([(place, 0, 0, 0)])


def forward(channels: PipeChannels) -> None:
    channels[0].send(channels[2].receive(timeout=60.0))


def send_and_exit(writer: ReportWriter, report: Any, flush_sec: float) -> None:
    writer.send(report)
    writer.flush_within(flush_sec)


def try_lock(directory: Path) -> str:
    """What a second run is told; empty if it gets the directory."""
    try:
        with DirectoryLock(directory, "--experiment"):
            return ""
    except DirectoryInUseError as error:
        return str(error)


def lock_for_ever(directory: Path, arrays: SharedArrays) -> None:
    with DirectoryLock(directory, "--experiment"):
        arrays["held"][0] = 1
        time.sleep(1000)


class TwoArgumentsError(Exception):
    """Pickles, and can't be unpickled."""

    def __init__(self, what: str, where: str):
        super().__init__(f"{what} in {where}")


def add(a: int, b: int) -> int:
    return a + b


def make_big_array(size: int) -> np.ndarray:
    return np.arange(size)


def raise_value_error() -> None:
    raise ValueError("the environment is not to be had")


def raise_two_arguments() -> None:
    raise TwoArgumentsError("nothing", "here")


def return_a_lambda() -> Any:
    return lambda: None


def crash() -> None:
    os._exit(3)


def follow_a_null_pointer() -> None:
    ctypes.string_at(0)


def sleep_for_ever() -> None:
    time.sleep(1000)


class Resting:
    """Has nothing to do, for much longer than a stop may take."""

    REST_SEC = 20.0

    def __init__(self, context: WorkerContext) -> None:
        self._context = context

    def poll(self, timeout: float) -> None:
        self._context.reporter.send("resting")
        self._context.rest(self.REST_SEC)

    def close(self) -> None:
        self._context.reporter.send("closed")


class Toy:
    """A component that reports when it is built, polled first and closed; the base of the others."""

    def __init__(self, context: WorkerContext):
        self.context = context
        self.polls = 0
        context.reporter.send(("built", context.name, context.life))

    def poll(self, timeout: float) -> None:
        self.polls += 1
        if self.polls == 1:
            self.context.reporter.send(("polled", self.context.name, self.context.life))
        time.sleep(0.001)

    def close(self) -> None:
        self.context.reporter.send(("closed", self.context.name, self.context.life))


class FailsInBuild(Toy):
    def __init__(self, context: WorkerContext):
        raise ValueError("no such game")


class FailsInPoll(Toy):
    def poll(self, timeout: float) -> None:
        raise RuntimeError("the simulator broke")


class FailsInClose(Toy):
    def close(self) -> None:
        raise RuntimeError("the disk is full")


class ExitsInPoll(Toy):
    def poll(self, timeout: float) -> None:
        os._exit(3)


class CrashesInPoll(Toy):
    def poll(self, timeout: float) -> None:
        self.follow_a_null_pointer()

    def follow_a_null_pointer(self) -> None:
        ctypes.string_at(0)


class SpeaksAndDies(Toy):
    """Its last report is in the pipe when it is killed."""

    def poll(self, timeout: float) -> None:
        self.context.reporter.send("last words")
        os.kill(os.getpid(), signal.SIGKILL)


class StartsAGame(Toy):
    """Has a child process that does not mind its parent's death."""

    def __init__(self, context: WorkerContext):
        super().__init__(context)
        self.game = subprocess.Popen(["sleep", "1000"])
        context.reporter.send(("game", self.game.pid))


class StuckInPoll(Toy):
    def poll(self, timeout: float) -> None:
        self.context.reporter.send(("polled", self.context.name, self.context.life))
        self.wait_for_a_simulator_that_hangs()

    def wait_for_a_simulator_that_hangs(self) -> None:
        time.sleep(1000)


class StuckInBuild(Toy):
    def __init__(self, context: WorkerContext):
        self.load_a_map_for_ever()

    def load_a_map_for_ever(self) -> None:
        time.sleep(1000)


class SlowButAlive(Toy):
    """Takes longer than its silence limit, and says that it is alive meanwhile."""

    def poll(self, timeout: float) -> None:
        for _ in range(40):
            self.context.beat()
            time.sleep(0.02)
        super().poll(timeout)


class ReportsMuch(Toy):
    """One report larger than a pipe, and nothing after it."""

    def poll(self, timeout: float) -> None:
        self.polls += 1
        if self.polls == 1:
            self.context.reporter.send(b"x" * 1_000_000)
        time.sleep(0.001)


class ReportsSurroundings(Toy):
    def __init__(self, context: WorkerContext):
        super().__init__(context)
        affinity = sorted(os.sched_getaffinity(0))
        context.reporter.send((os.environ.get("TOY_SETTING"), affinity, os.nice(0)))

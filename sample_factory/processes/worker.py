"""The life of a worker process: how a component is built, polled and closed in it.

A component is built complete where it runs, from a picklable `WorkerSpec`. It has `poll(timeout)` and
`close()` and nothing else; so a process, one loop in one process and a random test schedule are three ways
to call it.

Invariant: a worker process ends when told to, when its component raises, or when its parent dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing.forkserver
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sample_factory.processes import affinity
from sample_factory.processes.allocator import keep_freed_memory
from sample_factory.processes.channels import Reporter, ReportWriter
from sample_factory.processes.one_time_event import OneTimeEvent
from sample_factory.processes.shared_memory import SharedArrays
from sample_factory.processes.stacks import write_stacks_to

POLL_SECONDS = 0.1  # how long an idle component waits; bounds the time until a stop is seen
EXIT_FAILED = 1
TITLE_PREFIX = "sf_"
MAX_TITLE = 15  # what the kernel keeps
_PR_SET_PDEATHSIG = 1


class Component(Protocol):
    """A part of the system that some loop polls."""

    def poll(self, timeout: float) -> None:
        """Does what there is to do; waits at most `timeout` seconds when there is nothing."""

    def close(self) -> None:
        """Ends orderly: last reports, last save, release of outside resources."""


@dataclass(frozen=True)
class WorkerContext:
    """What a component gets from the process that runs it."""

    name: str
    reporter: Reporter
    beat: Callable[[], None]  # call between long pieces of work: "I am alive"
    life: int = 0  # how many times this worker was started before
    # Waits at most so many seconds, for components that wait for nothing else: it ends with a stop request.
    rest: Callable[[float], object] = field(default=lambda seconds: None)


Builder = Callable[[WorkerContext], Component]


@dataclass(frozen=True)
class WorkerSpec:
    """Everything a child process needs to become a worker; must pickle."""

    name: str
    build: Builder
    cores: Sequence[int] | None = None
    niceness: int = 0
    silence_limit_sec: float = 600.0  # without a sign of life for this long the worker counts as stuck
    silence_report_sec: float = 180.0  # and after this long its stack is logged
    start_limit_sec: float = 600.0  # the same until its component is built
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkerStarted:
    """Report: the component is built and polled from now on."""

    name: str


@dataclass(frozen=True)
class WorkerFailed:
    """Report: the component raised; the worker ends after sending this."""

    name: str
    error: str  # last line of the traceback
    trace: str
    is_final: bool = False  # starting the worker again would only repeat it


class LifeSigns:
    """Heartbeats, stop requests and stack dumps of all workers, in shared memory."""

    def __init__(self, arrays: SharedArrays, index: int):
        self._beats: np.ndarray = arrays["heartbeats"]
        self._stops: np.ndarray = arrays["stop_requests"]
        self._index = index

    def beat(self) -> None:
        """Records that the worker is alive now."""
        self._beats[self._index] = time.monotonic()

    def stop_requested(self) -> bool:
        """Whether the supervisor wants the worker to end."""
        return bool(self._stops[self._index])


@dataclass(frozen=True)
class WorkerLinks:
    """What ties a worker process to its supervisor; passed when the process starts."""

    life_signs: SharedArrays
    index: int
    stop: OneTimeEvent  # wakes a worker that rests; the request itself is among the life signs
    writer: ReportWriter
    stack_fd: Any


def run_worker(spec: WorkerSpec, links: WorkerLinks, life: int) -> None:
    """Entry point of a worker process."""
    _prepare_process(spec, links.stack_fd.detach())
    signs, writer = LifeSigns(links.life_signs, links.index), links.writer
    signs.beat()
    try:
        component = spec.build(WorkerContext(spec.name, writer, signs.beat, life, links.stop.wait))
        writer.send(WorkerStarted(spec.name))
        try:
            while not signs.stop_requested():
                signs.beat()
                component.poll(POLL_SECONDS)
                writer.flush()  # a report larger than the pipe goes in pieces
                if os.getppid() == 1:
                    return
        finally:
            signs.beat()
            component.close()
    except Exception as error:  # noqa: BLE001  anything a component raises becomes the worker's report
        last_line = traceback.format_exception_only(error)[-1].strip()
        is_final = getattr(error, "is_final", False)
        writer.send(WorkerFailed(spec.name, last_line, traceback.format_exc(), is_final))
        writer.flush_within(5.0)
        os._exit(EXIT_FAILED)  # interpreter teardown could hang in the library that just failed
    writer.flush_within(5.0)


def _prepare_process(spec: WorkerSpec, stack_fd: int) -> None:
    let_fork_server_end()
    die_with_parent()
    keep_freed_memory()
    # The main process alone reacts to signals sent to the whole group (Ctrl+C, a scheduler's SIGTERM).
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(ignored, signal.SIG_IGN)
    write_stacks_to(stack_fd)
    show_name(spec.name)
    os.environ.update(spec.environment)
    affinity.pin(spec.cores)
    if spec.niceness:
        os.nice(spec.niceness)


def show_name(name: str) -> None:
    """Shows in `ps` and `top` what this process is; there is room for 15 letters."""
    with contextlib.suppress(OSError):  # another platform, or no /proc
        Path("/proc/self/comm").write_text(process_title(name))


def process_title(name: str) -> str:
    """The title of a worker's process, for example `sf_rollout_12`."""
    return f"{TITLE_PREFIX}{name.replace('_worker', '')}"[:MAX_TITLE]


def let_fork_server_end() -> None:
    """Lets the fork server, the parent of this process, end with the main process.

    It lives as long as anyone holds its pipe, and every child is given a copy: orphaned workers would keep
    their own parent alive, and with it themselves.
    """
    server: Any = multiprocessing.forkserver._forkserver
    if server._forkserver_alive_fd is not None:
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = None


def die_with_parent() -> None:
    """Asks the kernel to kill this process when its parent ends, however the parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == 1:  # the parent ended before the request
            os._exit(EXIT_FAILED)

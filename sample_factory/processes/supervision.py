"""Starts, watches, restarts and stops worker processes.

The supervisor notices two things: a process that has ended, and one whose heartbeat has stopped. A stuck
worker has its stack logged and is killed; then it is simply dead. What a death means is the caller's
business: `check` returns it, and the caller decides to `restart` (with back-off) or to give up.

Invariant: after `stop_all` no worker process is left.
"""

from __future__ import annotations

import logging
import multiprocessing
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sample_factory.processes.channels import ReportPipe
from sample_factory.processes.fork_server import ensure_fork_server
from sample_factory.processes.offspring import Descendant, descendants, end_survivors
from sample_factory.processes.one_time_event import OneTimeEvent
from sample_factory.processes.shared_memory import ArraySpec, SharedArrays
from sample_factory.processes.stacks import StackFile
from sample_factory.processes.worker import (
    WorkerFailed,
    WorkerLinks,
    WorkerSpec,
    WorkerStarted,
    run_worker,
)

log = logging.getLogger("sample_factory")

FIRST_BACK_OFF_SEC = 0.5
LONGEST_BACK_OFF_SEC = 30.0
OFFSPRING_LOOK_SEC = 1.0
LONGEST_CHECK_GAP_SEC = 5.0  # between two checks; after a longer one the supervisor itself was stopped


@dataclass(frozen=True)
class Death:
    """A worker that has ended without being asked to."""

    name: str
    started: bool  # whether its component had been built: a death before that is a set-up error
    cause: str  # one line
    trace: str  # Python traceback or stack of the stuck process, if any
    deaths: int  # how many times this worker has died so far
    is_final: bool = False  # its component said that starting again would only repeat it
    raised: bool = False  # by an exception in its component, not by a signal, an exit or a hang


@dataclass
class _Worker:
    spec: WorkerSpec
    index: int
    stack_file: StackFile
    process: Any = None
    pipe: ReportPipe | None = None
    stop: OneTimeEvent | None = None
    started: bool = False
    deaths: int = 0
    restart_at: float | None = None
    failure: WorkerFailed | None = None
    stack: str = ""
    silence_reported: bool = False
    offspring: frozenset[Descendant] = frozenset()

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.is_alive()

    def close_links(self) -> None:
        for link in (self.pipe, self.stop):
            if link is not None:
                link.close()
        self.pipe = self.stop = None


@dataclass
class Supervisor:
    """The worker processes of one session."""

    max_workers: int
    clock: Callable[[], float] = time.monotonic
    _workers: dict[str, _Worker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._last_words: list[Any] = []  # reports of workers that have died since
        self._last_check = self._watching_since = self._next_look = time.monotonic()
        self._life_signs = SharedArrays(
            {
                "heartbeats": ArraySpec((self.max_workers,), "float64"),
                "stop_requests": ArraySpec((self.max_workers,), "bool"),
            },
            "sample_factory_life",
        )

    def start(self, spec: WorkerSpec) -> None:
        """Starts a worker for the first time."""
        if len(self._workers) >= self.max_workers:
            raise ValueError("more workers than the supervisor has room for")
        worker = _Worker(spec, len(self._workers), StackFile())
        self._workers[spec.name] = worker
        self._launch(worker)

    def _launch(self, worker: _Worker) -> None:
        worker.close_links()
        worker.pipe, worker.stop = ReportPipe(), OneTimeEvent()
        worker.started, worker.failure, worker.restart_at, worker.stack = False, None, None, ""
        self._life_signs["stop_requests"][worker.index] = False
        self._life_signs["heartbeats"][worker.index] = time.monotonic()
        worker.stack_file.take()
        links = WorkerLinks(
            self._life_signs, worker.index, worker.stop, worker.pipe.writer, worker.stack_file
        )
        # Not daemonic: an environment may start processes of its own.
        worker.process = self._context.Process(
            target=run_worker, args=(worker.spec, links, worker.deaths), name=worker.spec.name
        )
        ensure_fork_server()
        worker.process.start()

    def reports(self, timeout: float = 0.0) -> Iterator[Any]:
        """Reports of all workers, after waiting up to `timeout` seconds for the first one."""
        pipes = {w.pipe.read_fd: w for w in self._workers.values() if w.pipe is not None}
        poll = select.poll()
        for fd in pipes:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(0 if self._last_words else timeout * 1000):
            yield from self._drain(pipes[fd])
        yield from self._take_last_words()

    def _take_last_words(self) -> list[Any]:
        taken, self._last_words = self._last_words, []
        return taken

    def _drain(self, worker: _Worker) -> Iterator[Any]:
        assert worker.pipe is not None
        for report in worker.pipe.drain():
            if isinstance(report, WorkerStarted):
                worker.started = True
            elif isinstance(report, WorkerFailed):
                worker.failure = report
            yield report

    def check(self) -> list[Death]:
        """Kills stuck workers, starts those whose back-off is over, returns the new deaths."""
        deaths = []
        now = time.monotonic()
        if now - self._last_check > LONGEST_CHECK_GAP_SEC:
            # The machine was suspended, or this process stopped: the workers' silence means nothing.
            self._watching_since = now
        self._last_check = now
        if now >= self._next_look:
            self._next_look = now + OFFSPRING_LOOK_SEC
            for worker in self._workers.values():
                self._note_offspring(worker)
        for worker in self._workers.values():
            if worker.restart_at is not None:
                if self.clock() >= worker.restart_at:
                    self._launch(worker)
            elif worker.process is not None:
                self._kill_if_stuck(worker)
                if not worker.alive:
                    deaths.append(self._bury(worker))
        return deaths

    def _kill_if_stuck(self, worker: _Worker) -> None:
        limit = worker.spec.silence_limit_sec if worker.started else worker.spec.start_limit_sec
        last_sign = max(float(self._life_signs["heartbeats"][worker.index]), self._watching_since)
        silent = time.monotonic() - last_sign
        if silent <= min(limit, worker.spec.silence_report_sec) or not worker.alive:
            worker.silence_reported = False
            return
        if silent <= limit:
            if not worker.silence_reported:
                worker.silence_reported = True
                stack = self.stack_of(worker.spec.name)
                log.warning("%s has been silent for %.0f s; its stack:\n%s", worker.spec.name, silent, stack)
            return
        worker.stack = self.stack_of(worker.spec.name)
        log.error("%s has been stuck for %.0f s; its stack:\n%s", worker.spec.name, silent, worker.stack)
        self._kill(worker)

    def _note_offspring(self, worker: _Worker) -> None:
        if worker.alive:
            worker.offspring = descendants(worker.process.pid)

    def _kill(self, worker: _Worker) -> None:
        self._note_offspring(worker)
        worker.process.kill()
        worker.process.join(5.0)
        self._end_offspring(worker)

    def _end_offspring(self, worker: _Worker) -> None:
        if survivors := end_survivors(worker.offspring):
            log.warning("Killed the processes %s that %s has left behind.", survivors, worker.spec.name)
        worker.offspring = frozenset()

    def _bury(self, worker: _Worker) -> Death:
        self._last_words += self._drain(worker)  # above all why it failed
        self._end_offspring(worker)
        worker.deaths += 1
        exit_code = worker.process.exitcode
        worker.process.close()
        worker.process = None
        if worker.failure is not None:
            cause, trace = worker.failure.error, worker.failure.trace
        elif worker.stack:
            cause, trace = f"{worker.spec.name} was stuck and has been killed", worker.stack
        else:  # a segmentation fault leaves its stack by itself
            cause, trace = _describe_exit(worker.spec.name, exit_code), worker.stack_file.take()
        return Death(
            name=worker.spec.name,
            started=worker.started,
            cause=cause,
            trace=trace,
            deaths=worker.deaths,
            is_final=worker.failure is not None and worker.failure.is_final,
            raised=worker.failure is not None,
        )

    def restart(self, name: str, failures_in_a_row: int = 1) -> float:
        """Starts a dead worker again after a back-off that doubles with each failure; returns the delay."""
        worker = self._workers[name]
        delay = min(FIRST_BACK_OFF_SEC * 2 ** (failures_in_a_row - 1), LONGEST_BACK_OFF_SEC)
        worker.restart_at = self.clock() + delay
        return delay

    def stack_of(self, name: str) -> str:
        """The Python stack of a running worker, as it is now; empty if it does not answer in time."""
        worker = self._workers[name]
        return worker.stack_file.ask(worker.process)

    def pids(self) -> dict[str, int]:
        """Process ids of the running workers."""
        return {name: w.process.pid for name, w in self._workers.items() if w.alive}

    def all_started(self) -> bool:
        """Whether every worker has built its component."""
        return all(worker.started for worker in self._workers.values())

    def stop(self, names: Iterable[str], timeout: float) -> Iterator[Any]:
        """Asks workers to end, waits up to `timeout` seconds, kills the rest; yields their last reports."""
        yield from self._take_last_words()
        workers = [self._workers[name] for name in names]
        for worker in workers:
            worker.restart_at = None
            self._life_signs["stop_requests"][worker.index] = True
            if worker.stop is not None:
                worker.stop.set()
        deadline = time.monotonic() + timeout
        for worker in workers:
            # A worker with a full report pipe waits for its reader, so read until it is gone.
            while worker.alive and time.monotonic() < deadline:
                worker.process.join(0.02)
                yield from self._drain(worker)
            if worker.alive:
                reason = f"{worker.spec.name} did not stop within {timeout:.0f} s and is killed"
                log.warning("%s", reason)
                self._kill(worker)
                yield WorkerFailed(worker.spec.name, reason, "")
            self._end_offspring(worker)
            if worker.pipe is not None:
                yield from self._drain(worker)

    def stop_all(self, timeout: float) -> None:
        """Ends every worker; safe to call twice and after any failure."""
        for _ in self.stop(list(self._workers), timeout):
            pass
        for worker in self._workers.values():
            if worker.process is not None:
                worker.process.close()
                worker.process = None
            worker.close_links()
            worker.stack_file.close()
        self._life_signs.close()


def _describe_exit(name: str, exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        killed_by = signal.Signals(-exit_code).name
        hint = "; perhaps the machine ran out of memory" if -exit_code == signal.SIGKILL else ""
        return f"{name} was killed by {killed_by}{hint}"
    return f"{name} exited with code {exit_code}"

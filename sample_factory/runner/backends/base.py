"""What the engine asks of a place where jobs run, and what most of such places have in common.

A back end starts jobs, tells how each one is doing, and stops them. It keeps no states: those are the
engine's and the manifest's. `SupervisedBackend` covers all places where `job_process` runs beside the
job: the result file is the truth, and the place is only asked whether anybody is still there to write it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar

from sample_factory.runner.commands import JobCommands, Launch
from sample_factory.runner.errors import RunnerError
from sample_factory.runner.manifest import Attempt, JobRecord
from sample_factory.runner.results import JobResult, read_result, supervisor_alive


@dataclass(frozen=True)
class Started:
    """How starting a job went: what the place calls it, or why it could not be started."""

    id: str = ""
    pid: int | None = None
    log: str = ""
    error: str = ""


@dataclass(frozen=True)
class Watched:
    """An attempt that has been started and not been seen to end."""

    job_id: str
    attempt: Attempt
    directory: str = ""

    @classmethod
    def from_record(cls, record: JobRecord) -> Watched:
        """The newest attempt of a job."""
        return cls(record.id, record.last_attempt, record.directory)


class Phase(Enum):
    """Where an attempt is."""

    WAITING = auto()
    RUNNING = auto()
    ENDED = auto()


@dataclass(frozen=True)
class Observation:
    """What is known of an attempt.

    Attributes:
        phase: where it is.
        exit_code: of an attempt that ended; None when it vanished without a result.
        timed_out: whether the time limit ended it.
        stopped: whether somebody ended it on purpose.
        detail: what the place itself says about the end.
        at: when it ended, if that is known.
    """

    phase: Phase
    exit_code: int | None = None
    timed_out: bool = False
    stopped: bool = False
    detail: str = ""
    at: float | None = None


WAITING = Observation(Phase.WAITING)
RUNNING = Observation(Phase.RUNNING)


class Backend(ABC):
    """A place where jobs run.

    Attributes:
        name: as `--runner` has it and the manifest records it.
        is_local: jobs share this machine, so `--max_parallel` and GPU packing apply.
        outlives_launcher: whether Ctrl+C leaves jobs alone, because they belong to a scheduler.
        batch_size: how many jobs one `start` may take.
        poll_seconds: how often the engine looks.
    """

    name: ClassVar[str]
    is_local: ClassVar[bool] = False
    outlives_launcher: ClassVar[bool] = False
    batch_size: int = 1
    poll_seconds: float = 0.1

    @abstractmethod
    def start(self, launches: Sequence[Launch]) -> list[Started]:
        """Start attempts; the answers are in the same order."""

    @abstractmethod
    def observe(self, watched: Sequence[Watched]) -> dict[str, Observation]:
        """How attempts are doing, by job id; they may have been started by an earlier launcher."""

    @abstractmethod
    def stop(self, watched: Sequence[Watched], force: bool) -> None:
        """Ask attempts to end, or kill them; `observe` tells when they have."""

    def prepare(self, launches: Sequence[Launch]) -> list[str]:
        """Write the files that starting needs; returns the shell commands that would start the jobs.

        Raises:
            RunnerError: when there is no such command.
        """
        raise RunnerError(
            f"--runner={self.name} has nothing to write down; use --runner=print to see commands."
        )

    def log_of(self, job_id: str) -> str:
        """Where an attempt's output will be; empty if only starting it tells."""
        return ""

    def hints(self) -> list[str]:
        """What a user can type to look after the jobs."""
        return []

    def close(self) -> None:  # noqa: B027 - most places hold nothing
        """Let go of connections; jobs are not touched."""


class SupervisedBackend(Backend):
    """A place where `job_process` runs beside each job and writes its result to a file we can read."""

    def __init__(self, commands: JobCommands):
        self._commands = commands
        self._files = commands.files

    def start(self, launches: Sequence[Launch]) -> list[Started]:
        """Start attempts, without results that an earlier launcher may have left under the same number."""
        for launch in launches:
            self._files.result(launch.job.id, launch.attempt).unlink(missing_ok=True)
        return self._start(launches)

    def log_of(self, job_id: str) -> str:
        """The job's file in the run's directory."""
        return str(self._files.log(job_id))

    @abstractmethod
    def _start(self, launches: Sequence[Launch]) -> list[Started]:
        """Start attempts; the answers are in the same order."""

    def observe(self, watched: Sequence[Watched]) -> dict[str, Observation]:
        """Results where there are any; the others are looked for."""
        observations: dict[str, Observation] = {}
        unknown: list[Watched] = []
        for item in watched:
            result = self._result(item)
            if result is not None and self._is_final(result):
                observations[item.job_id] = ended(result)
            elif result is not None and not result.requeued and self._supervised(item, result):
                observations[item.job_id] = RUNNING
            else:
                unknown.append(item)
        if unknown:
            observations |= self._observe_unsettled(unknown)
        return observations

    def _observe_unsettled(self, watched: Sequence[Watched]) -> dict[str, Observation]:
        """Attempts without a final result: look whether they exist, then for a result once more.

        The second look is needed because an attempt may end between the first look and the question.
        """
        there = self._find(watched)
        observations = {}
        for item in watched:
            if item.job_id in there:
                observations[item.job_id] = there[item.job_id]
                continue
            observations[item.job_id] = self._settle(item, self._result(item))
        return observations

    @abstractmethod
    def _find(self, watched: Sequence[Watched]) -> dict[str, Observation]:
        """Those of the attempts that still exist."""

    def _is_final(self, result: JobResult) -> bool:
        return result.ended

    def _supervised(self, item: Watched, result: JobResult) -> bool:
        return supervisor_alive(result, self._files.result(item.job_id, item.attempt.number))

    def _settle(self, item: Watched, result: JobResult | None) -> Observation:
        """How an attempt ended that does not exist any more."""
        return ended(result) if result is not None and result.ended else self._vanished(item)

    def _vanished(self, item: Watched) -> Observation:
        return Observation(Phase.ENDED, detail="it vanished without a result, perhaps killed")

    def _supervisor_pid(self, item: Watched) -> int | None:
        """The supervisor's process number, if it lives on this machine."""
        result = self._result(item)
        if result is None or result.host != socket.gethostname() or not self._supervised(item, result):
            return None
        return result.pid

    def _result(self, item: Watched) -> JobResult | None:
        return read_result(self._files.result(item.job_id, item.attempt.number))


def signal_supervisor(pid: int, force: bool) -> None:
    """Ask a supervisor to end its job, or to kill it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGQUIT if force else signal.SIGTERM)


def ended(result: JobResult) -> Observation:
    """A final result in the engine's words."""
    return Observation(
        Phase.ENDED,
        exit_code=result.exit_code,
        timed_out=result.timed_out and result.exit_code != 0,
        stopped=result.stopped_by is not None and result.exit_code != 0,
        at=result.stopped,
    )

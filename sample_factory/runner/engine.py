"""The loop that runs jobs: adopt, collect, start, show, until nothing is left to do.

`run` makes it; back ends do what depends on the place. All states change here, and each change is in the
manifest before the next thing happens. Invariants: an attempt is recorded before it is started, so a
launcher that dies leaves nothing unknown; COMPLETED means exit code 0; a job never has two attempts at a
time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sample_factory.config.errors import ConfigError
from sample_factory.runner.backends.base import Backend, Observation, Phase, Started, Watched
from sample_factory.runner.commands import Launch
from sample_factory.runner.errors import ExitCode
from sample_factory.runner.jobs import Job
from sample_factory.runner.manifest import Attempt, JobRecord, Manifest, State
from sample_factory.runner.placement import Placement
from sample_factory.runner.resume import select
from sample_factory.runner.verdicts import CAN_GO_ON, judge


@dataclass(frozen=True)
class Limits:
    """What the user allows the engine.

    Attributes:
        pause_between: seconds between two starts.
        max_retries: how often a job that failed is started again.
        max_requeues: how often a job that was pre-empted is started again.
        stop_on_failure: start nothing more once a job has failed.
        wait: stay until all jobs have ended; otherwise leave when all are submitted.
    """

    pause_between: float = 0.0
    max_retries: int = 0
    max_requeues: int = 100
    stop_on_failure: bool = False
    wait: bool = True


class Display(Protocol):
    """Where a user sees what happens."""

    def changed(self, record: JobRecord) -> None:
        """A job has a new state."""

    def refresh(self, records: Sequence[JobRecord]) -> None:
        """Time has passed."""

    def note(self, text: str) -> None:
        """Something that concerns no single job."""


class Director(Protocol):
    """Decides while jobs run which others are worth running; `tune` is one."""

    def direct(self, engine: Engine) -> bool:
        """Called after every look at the jobs, may `add` and `drop` some; True while more may come."""


class Clock:
    """Time; tests have another one."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)  # schedulers tell only who asks


class StopRequest:
    """Set by signals: once to stop politely, twice to kill."""

    def __init__(self) -> None:
        self.count = 0
        self.exit_code = ExitCode.OK

    def request(self, exit_code: ExitCode) -> None:
        """Ask the engine to stop; safe in a signal handler."""
        self.count += 1
        self.exit_code = exit_code


class Engine:
    """Runs the jobs of one launch.

    Args:
        manifest: holds the record of every job.
        jobs: what to run; the records of others in the manifest are left alone.
        backend: where.
        placement: how many at a time, and on which GPUs.
        limits: what the user allows.
        display: who is told.
    """

    def __init__(
        self,
        manifest: Manifest,
        jobs: Sequence[Job],
        backend: Backend,
        placement: Placement,
        limits: Limits,
        display: Display,
    ):
        self.stop_request = StopRequest()
        self.clock = Clock()
        self._manifest = manifest
        self._jobs = {job.id: job for job in jobs}
        self._backend = backend
        self._placement = placement
        self._limits = limits
        self._display = display
        self._adopted: set[str] = set()  # jobs of an earlier launcher that still run
        self._dropped: dict[str, str] = {}  # jobs that nobody needs any more, and why
        self._failures: Counter[str] = Counter()
        self._requeues: Counter[str] = Counter()
        self._next_start = 0.0
        self._stops_sent = 0

    @property
    def records(self) -> list[JobRecord]:
        """The records of the jobs of this launch."""
        return [self._manifest.records[job_id] for job_id in self._jobs]

    def run(self, director: Director | None = None) -> None:
        """Run until every job has ended, or is submitted if nobody waits, or until told to stop."""
        self._adopt(self._in_state(State.SUBMITTED, State.RUNNING))
        while True:
            self._collect()
            expects_more = False
            if self.stop_request.count:
                self._stop_open_jobs()
            else:
                expects_more = director is not None and director.direct(self)
                self._start_what_fits()
            self._display.refresh(self.records)
            if not expects_more and not self._has_more_to_do():
                return
            self.clock.sleep(self._backend.poll_seconds)

    def record(self, job_id: str) -> JobRecord:
        """What is known of a job."""
        return self._manifest.records[job_id]

    def add(self, jobs: Sequence[Job]) -> None:
        """Take on more jobs; those that are complete stay so, and those that run already are adopted."""
        selection = select(self._manifest, jobs, "missing")
        self._jobs |= {job.id: job for job in jobs}
        self._adopt([self.record(job.id) for job in selection.adopted])
        self._save()

    def drop(self, job_ids: Iterable[str], reason: str) -> None:
        """End jobs that nobody needs any more; what had not ended before counts as INTERRUPTED."""
        unfinished = [record for record in map(self.record, job_ids) if not record.state.is_final]
        self._dropped |= {record.id: reason for record in unfinished}
        running = [record for record in unfinished if record.state.is_open]
        if running:
            self._backend.stop([Watched.from_record(record) for record in running], force=False)
        for record in unfinished:
            if record.state is State.QUEUED:
                record.state, record.error = State.INTERRUPTED, reason
                self._display.changed(record)
        self._save()

    def note(self, text: str) -> None:
        """Tell the user something that concerns no single job."""
        self._display.note(text)

    def _adopt(self, records: Iterable[JobRecord]) -> None:
        for record in records:
            self._adopted.add(record.id)
            self._placement.occupy(record.id, record.last_attempt.gpu)

    def _has_more_to_do(self) -> bool:
        waits = self._limits.wait and not (self.stop_request.count and self._backend.outlives_launcher)
        if waits and self._in_state(State.SUBMITTED, State.RUNNING):
            return True
        return bool(self._startable())

    def _startable(self) -> list[JobRecord]:
        """Jobs to start as soon as there is room."""
        if self.stop_request.count:
            return []
        if self._limits.stop_on_failure and self._in_state(State.FAILED):
            return []
        return self._in_state(State.QUEUED)

    def _start_what_fits(self) -> None:
        while (queued := self._startable()) and self.clock.now() >= self._next_start:
            if self._backend.is_local and not self._placement.has_room():
                return
            self._start(queued[: self._backend.batch_size])
            self._next_start = self.clock.now() + self._limits.pause_between

    def _start(self, records: Sequence[JobRecord]) -> None:
        launches = []
        for record in records:
            gpu = self._placement.place(record.id) if self._backend.is_local else None
            attempt = Attempt(
                len(record.attempts) + 1,
                self._backend.name,
                gpu=gpu,
                log=self._backend.log_of(record.id),  # already here, for the successor of a killed launcher
                start=self.clock.now(),
            )
            record.attempts.append(attempt)
            record.state, record.error = State.SUBMITTED, ""
            launches.append(Launch(self._jobs[record.id], attempt.number, gpu))
        self._save()
        for record, started in zip(records, self._backend.start(launches), strict=True):
            self._note_start(record, started)
        self._save()

    def _note_start(self, record: JobRecord, started: Started) -> None:
        attempt = record.last_attempt
        attempt.id, attempt.pid, attempt.log = started.id, started.pid, started.log
        if started.error:
            self._end(record, Observation(Phase.ENDED, exit_code=None, detail=started.error))
        else:
            record.state = State.RUNNING if started.pid is not None else State.SUBMITTED
            self._display.changed(record)

    def _collect(self) -> None:
        open_records = self._in_state(State.SUBMITTED, State.RUNNING)
        watched = [Watched.from_record(record) for record in open_records]
        observations = self._backend.observe(watched) if watched else {}
        changed = False
        for record in open_records:
            changed |= self._take(record, observations[record.id])
        if changed:
            self._save()

    def _take(self, record: JobRecord, observation: Observation) -> bool:
        if observation.phase is Phase.ENDED:
            self._end(record, observation)
            return True
        state = State.RUNNING if observation.phase is Phase.RUNNING else State.SUBMITTED
        if state is record.state:
            return False
        record.state = state
        self._display.changed(record)
        return True

    def _end(self, record: JobRecord, observation: Observation) -> None:
        attempt = record.last_attempt
        attempt.stop, attempt.exit_code = observation.at or self.clock.now(), observation.exit_code
        self._placement.release(record.id)
        record.state, record.error = self._judge(record, observation)
        record.left_directory = bool(record.directory) and Path(record.directory).is_dir()
        self._display.changed(record)

    def _judge(self, record: JobRecord, observation: Observation) -> tuple[State, str]:
        """The verdict, as far as the user's limits allow to start again."""
        state, reason = judge(observation, Path(record.last_attempt.log))
        if record.id in self._dropped and state is not State.COMPLETED:
            return State.INTERRUPTED, self._dropped[record.id]
        if self.stop_request.count and state is not State.COMPLETED:
            return State.INTERRUPTED, f"stopped; {CAN_GO_ON}"
        if record.id in self._adopted:
            self._adopted.remove(record.id)
            # What ended it may have been the end of its launcher, so it gets a start of ours.
            if state is State.INTERRUPTED or observation.exit_code is None:
                return State.QUEUED, "lost with its launcher"
        if state is State.QUEUED:
            self._requeues[record.id] += 1
            if self._requeues[record.id] > self._limits.max_requeues:
                return State.TIMEOUT, f"pre-empted more than --max_requeues={self._limits.max_requeues} times"
        if state is State.FAILED:
            self._failures[record.id] += 1
            # A command line that is wrong stays wrong.
            if (
                observation.exit_code != ExitCode.USAGE
                and self._failures[record.id] <= self._limits.max_retries
            ):
                return State.QUEUED, reason
        return state, reason

    def _stop_open_jobs(self) -> None:
        if self._backend.outlives_launcher or self._stops_sent >= self.stop_request.count:
            return
        self._stops_sent = self.stop_request.count
        open_records = self._in_state(State.SUBMITTED, State.RUNNING)
        force = self.stop_request.count > 1
        if open_records:
            ways = "killing" if force else "asking"
            self._display.note(f"{ways} {len(open_records)} jobs to stop; interrupt again to kill them")
            self._backend.stop([Watched.from_record(record) for record in open_records], force)

    def _in_state(self, *states: State) -> list[JobRecord]:
        return [record for record in self.records if record.state in states]

    def _save(self) -> None:
        """A full disk must not end a launcher that others depend on; the next save tries again."""
        try:
            self._manifest.save()
        except ConfigError as error:
            self._display.note(str(error))


def exit_code_of(records: Iterable[JobRecord], stop: StopRequest) -> ExitCode:
    """The launcher's exit code: being stopped first, then failures, then what is unfinished."""
    states = {record.state for record in records}
    if stop.count and states != {State.COMPLETED}:
        return stop.exit_code
    if State.FAILED in states:
        return ExitCode.FAILED
    return ExitCode.REQUEUE if states & {State.TIMEOUT, State.INTERRUPTED} else ExitCode.OK

"""What a launcher that is started again has to do: find out what happened meanwhile, and choose what to run.

Invariant: a job that some process or scheduler still works on is never started a second time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sample_factory.runner.backends.base import Backend, Observation, Phase, Watched
from sample_factory.runner.errors import RunnerError
from sample_factory.runner.jobs import Job
from sample_factory.runner.manifest import JobRecord, Manifest, State
from sample_factory.runner.run_files import DONE_FILE
from sample_factory.runner.verdicts import CAN_GO_ON, judge

MODES = ("missing", "failed", "all", "none")
_UNFINISHED = (State.FAILED, State.TIMEOUT, State.INTERRUPTED)


@dataclass
class Selection:
    """The jobs of a launch, by what happens to them."""

    to_run: list[Job] = field(default_factory=list)
    adopted: list[Job] = field(default_factory=list)
    done: list[Job] = field(default_factory=list)
    left_out: list[Job] = field(default_factory=list)


def open_records(records: Iterable[JobRecord], backend: str | None = None) -> list[JobRecord]:
    """Jobs that are submitted or run, on one back end or on any."""
    return [
        record
        for record in records
        if record.state.is_open and backend in (None, record.last_attempt.backend)
    ]


def reconcile(records: Sequence[JobRecord], backend: Backend) -> list[JobRecord]:
    """Bring the records of jobs that were open up to date; returns those that changed."""
    watched = [Watched.from_record(record) for record in records]
    observations = backend.observe(watched) if watched else {}
    return [record for record in records if _update(record, observations[record.id])]


def _update(record: JobRecord, observation: Observation) -> bool:
    before = record.state
    attempt = record.last_attempt
    if observation.phase is not Phase.ENDED:
        record.state = State.RUNNING if observation.phase is Phase.RUNNING else State.SUBMITTED
        return record.state is not before
    attempt.stop, attempt.exit_code = observation.at or time.time(), observation.exit_code
    record.left_directory = bool(record.directory) and Path(record.directory).is_dir()
    record.state, record.error = judge(observation, Path(attempt.log))
    # Nobody was watching: that a job vanished may be the machine's fault, and is no verdict on the job.
    if record.state is State.QUEUED or (record.state is State.FAILED and observation.exit_code is None):
        record.state, record.error = State.INTERRUPTED, f"lost or pre-empted; {CAN_GO_ON}"
    return True


def select(manifest: Manifest, jobs: Sequence[Job], mode: str) -> Selection:
    """Decide what to run, and put a record for every job into the manifest.

    Args:
        manifest: reconciled with reality.
        jobs: what the description asks for now.
        mode: `missing`, `failed`, `all` or `none`, as `--resume` has it.
    """
    if mode == "none":
        _refuse_existing(manifest, jobs)
    selection = Selection()
    for job in jobs:
        record = manifest.records.get(job.id)
        _group(selection, job, record, mode).append(job)
        manifest.records[job.id] = _renewed(job, record)
    for job in selection.to_run:
        manifest.records[job.id].state = State.QUEUED
    for job in selection.done:
        manifest.records[job.id].state = State.COMPLETED
    return selection


def _group(selection: Selection, job: Job, record: JobRecord | None, mode: str) -> list[Job]:
    if record is not None and record.state.is_open:
        return selection.adopted
    if mode == "all":
        return selection.to_run
    if _is_done(job, record):
        return selection.done
    if mode == "failed" and (record is None or record.state not in _UNFINISHED):
        return selection.left_out
    return selection.to_run


def _is_done(job: Job, record: JobRecord | None) -> bool:
    """Whether nothing is left to do; a command that was changed is new work, as is a deleted directory."""
    if record is None or not record.attempts:
        return job.directory is not None and (job.directory / DONE_FILE).exists()
    if record.state is not State.COMPLETED or not record.same_command(job.record()):
        return False
    return not record.left_directory or (job.directory is not None and job.directory.is_dir())


def _renewed(job: Job, old: JobRecord | None) -> JobRecord:
    """The record of a job as it is described now, with the history it has."""
    record = job.record()
    if old is not None:
        record.state, record.error, record.attempts = old.state, old.error, old.attempts
        record.left_directory = old.left_directory
    return record


def _refuse_existing(manifest: Manifest, jobs: Sequence[Job]) -> None:
    existing = [job.directory for job in jobs if job.directory is not None and job.directory.exists()]
    if existing or manifest.records:
        where = existing[0] if existing else manifest.path
        raise RunnerError(
            f"{where} exists and --resume=none starts nothing over; use --resume=missing to go on, or "
            "another --experiment_suffix."
        )

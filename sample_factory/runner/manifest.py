"""The one record of a run: which jobs there are, what state each is in, and every attempt at it.

The engine writes it after each change; `--status`, `--cancel` and a launcher that is started again read
it. Invariants: the file is whole or absent; an attempt is in it before its job starts; no secret is in
it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from sample_factory.config.experiment_files import write_json
from sample_factory.config.provenance import git_identity
from sample_factory.runner.errors import RunnerError

FORMAT = "sample_factory.manifest/1"


class State(StrEnum):
    """What a job is doing."""

    QUEUED = "QUEUED"  # to be started by a launcher
    SUBMITTED = "SUBMITTED"  # handed to a scheduler, not running yet
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"  # its command ended with exit code 0
    FAILED = "FAILED"
    INTERRUPTED = "INTERRUPTED"  # stopped on purpose, or lost with its machine; can be continued
    TIMEOUT = "TIMEOUT"  # stopped by the time limit; can be continued

    @property
    def is_open(self) -> bool:
        """Whether some process or scheduler is responsible for the job right now."""
        return self in (State.SUBMITTED, State.RUNNING)

    @property
    def is_final(self) -> bool:
        """Whether nothing is going to happen to the job in this launch."""
        return not self.is_open and self is not State.QUEUED


@dataclass
class Attempt:
    """One start of a job.

    Attributes:
        number: counts from 1.
        backend: the back end that started it.
        id: what the back end calls it: a process, pane, Slurm or Ray id; empty until it is started.
        pid: the process that supervises it, for jobs on this machine.
        gpu: the GPU it was given, if any.
        log: the file that holds what it prints.
        start: when it was started, seconds since the epoch.
        stop: when it ended.
        exit_code: of the command; negative for a signal; None while it runs or when nobody knows.
    """

    number: int
    backend: str
    id: str = ""
    pid: int | None = None
    gpu: str | None = None
    log: str = ""
    start: float = 0.0
    stop: float | None = None
    exit_code: int | None = None


@dataclass
class JobRecord:
    """One job as the manifest has it; `argv` and `env` are what was described, without secrets.

    `directory` is the experiment's own directory, empty if nobody knows it; `left_directory` tells whether
    it was there when the last attempt ended.
    """

    id: str
    index: int
    name: str
    root_dir: str
    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    state: State = State.QUEUED
    error: str = ""
    directory: str = ""
    left_directory: bool = False
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def last_attempt(self) -> Attempt:
        """The newest attempt of a job that has been started."""
        return self.attempts[-1]

    def same_command(self, other: JobRecord) -> bool:
        """Whether both would run the same thing."""
        return self.argv == other.argv and self.env == other.env


class Manifest:
    """The records of a run, by job id, and the file they live in."""

    def __init__(self, path: Path, header: Mapping[str, Any], records: Sequence[JobRecord] = ()):
        self.path = path
        self.header = dict(header)
        self.records = {record.id: record for record in records}

    @classmethod
    def load(cls, path: Path) -> Manifest:
        """Read a manifest.

        Raises:
            RunnerError: when the file can't be read or is no manifest.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise ValueError(f"its format is {content['format']!r}, not {FORMAT!r}")
            records = [_record(values) for values in content.pop("jobs")]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunnerError(
                f"{path} can't be used ({error}); move it away to start the bookkeeping afresh."
            ) from error
        return cls(path, content, records)

    @classmethod
    def create(cls, path: Path, argv: Sequence[str]) -> Manifest:
        """A manifest without jobs; it is not written yet."""
        commit, _ = git_identity(Path.cwd())
        return cls(path, {"format": FORMAT, "created": timestamp(), "argv": list(argv), "git": commit})

    def save(self) -> None:
        """Write the file; whoever reads it sees the old or the new one, never half of it."""
        jobs = [asdict(record) for record in self.records.values()]
        write_json(self.path, {**self.header, "jobs": jobs})


def timestamp(seconds: float | None = None) -> str:
    """A point in time, now if none is given, as ISO 8601 in UTC."""
    moment = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="seconds")


def _record(values: dict[str, Any]) -> JobRecord:
    known = {item.name for item in fields(JobRecord)}
    record = JobRecord(**{key: value for key, value in values.items() if key in known})
    record.state = State(record.state)
    known = {item.name for item in fields(Attempt)}
    record.attempts = [
        Attempt(**{key: value for key, value in attempt.items() if key in known})
        for attempt in values["attempts"]
    ]
    return record

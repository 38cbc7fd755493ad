"""`--status` and `--cancel`: what can be done about a run from outside its launcher.

Both work from the manifest alone, with or without a launcher alive. Invariant: while a launcher holds the
run's lock, nobody else writes the manifest.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import TextIO

from sample_factory.processes.directory_lock import LOCK_FILE, DirectoryInUseError, DirectoryLock
from sample_factory.runner.backends.base import Backend, Watched
from sample_factory.runner.choose import backend_of_attempts
from sample_factory.runner.display import counts, text_table
from sample_factory.runner.errors import ExitCode, NoRunFoundError, RunnerError
from sample_factory.runner.manifest import JobRecord, Manifest, State
from sample_factory.runner.resume import open_records, reconcile
from sample_factory.runner.run_files import RunFiles
from sample_factory.runner.verdicts import CAN_GO_ON

_POLL_SEC = 0.2
_SPARE_SEC = 15.0


def show_status(files: RunFiles, args: argparse.Namespace, stream: TextIO) -> ExitCode:
    """Print the table of a run; the exit code is 1 when a job has failed."""
    records = current_records(files, args)
    stream.write("\n".join([*text_table(records), counts(records), ""]))
    return ExitCode.FAILED if any(record.state is State.FAILED for record in records) else ExitCode.OK


def current_records(files: RunFiles, args: argparse.Namespace) -> list[JobRecord]:
    """The jobs of a run as they are now; while a launcher is alive, as it has written them down."""
    manifest = _load(files)
    with contextlib.suppress(DirectoryInUseError), DirectoryLock(files.run_dir, "--run_name"):
        manifest = refreshed(files, args)
    return list(manifest.records.values())


def cancel_run(files: RunFiles, args: argparse.Namespace, stream: TextIO) -> ExitCode:
    """Stop the launcher of a run, if one is alive, and every job that is left."""
    _load(files)
    _stop_launcher(files, args.stop_grace + _SPARE_SEC)
    with DirectoryLock(files.run_dir, "--run_name"):
        manifest = refreshed(files, args)
        stopped = open_records(manifest.records.values())
        for backend, records in _by_backend(stopped, files, args):
            backend.stop([Watched.from_record(record) for record in records], force=False)
            _await_end(backend, records, args.stop_grace + _SPARE_SEC)
            for record in records:
                if record.state not in (State.COMPLETED, State.SUBMITTED, State.RUNNING):
                    record.state, record.error = State.INTERRUPTED, f"cancelled; {CAN_GO_ON}"
        manifest.save()
    remaining = open_records(stopped)
    if remaining:
        raise RunnerError(
            f"{len(remaining)} jobs have not ended, e.g. {remaining[0].id}; try --cancel again."
        )
    stream.write(f"{len(stopped)} jobs cancelled; {counts(list(manifest.records.values()))}\n")
    return ExitCode.OK


def refreshed(files: RunFiles, args: argparse.Namespace) -> Manifest:
    """The manifest after looking what became of open jobs; the caller holds the lock."""
    manifest = _load(files)
    for backend, records in _by_backend(open_records(manifest.records.values()), files, args):
        reconcile(records, backend)
    manifest.save()
    return manifest


def _load(files: RunFiles) -> Manifest:
    if not files.manifest.exists():
        raise NoRunFoundError(f"There is no run in {files.run_dir}; check --train_dir and --run_name.")
    return Manifest.load(files.manifest)


def _by_backend(
    records: list[JobRecord], files: RunFiles, args: argparse.Namespace
) -> Iterator[tuple[Backend, list[JobRecord]]]:
    groups: dict[str, list[JobRecord]] = defaultdict(list)
    for record in records:
        groups[record.last_attempt.backend].append(record)
    for name, members in groups.items():
        yield backend_of_attempts(name, args, files), members


def _stop_launcher(files: RunFiles, patience_sec: float) -> None:
    deadline = time.monotonic() + patience_sec
    told = False
    while True:
        try:
            with DirectoryLock(files.run_dir, "--run_name"):
                return
        except DirectoryInUseError as error:
            if time.monotonic() > deadline:
                raise RunnerError(f"The launcher does not stop: {error}") from error
            if not told:
                told = _tell_launcher(files)
        time.sleep(_POLL_SEC)  # waiting for a file lock has no deadline


def _tell_launcher(files: RunFiles) -> bool:
    """Whether the launcher was reached; it may not have written its number yet, or be gone already."""
    try:
        os.kill(int((files.run_dir / LOCK_FILE).read_text()), signal.SIGTERM)
    except (ValueError, ProcessLookupError):
        return False
    return True


def _await_end(backend: Backend, records: list[JobRecord], patience_sec: float) -> None:
    deadline = time.monotonic() + patience_sec
    while time.monotonic() < deadline and any(record.state.is_open for record in records):
        reconcile([record for record in records if record.state.is_open], backend)
        time.sleep(_POLL_SEC)  # queues and files of other programs tell only who asks

"""Jobs as processes of this machine, each with its own session, process group and log.

A job outlives a launcher that is killed: its supervisor goes on and writes the result, and the next
launcher with the same description adopts it by its process number and start time. Ctrl+C, SIGTERM and
SIGHUP at the launcher end all jobs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from sample_factory.runner.backends.base import (
    RUNNING,
    Observation,
    Phase,
    Started,
    SupervisedBackend,
    Watched,
    signal_supervisor,
)
from sample_factory.runner.commands import JobCommands, Launch
from sample_factory.runner.results import process_alive


class ProcessesBackend(SupervisedBackend):
    """Starts and watches local processes."""

    name = "processes"
    is_local = True

    def __init__(self, commands: JobCommands):
        super().__init__(commands)
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def observe(self, watched: Sequence[Watched]) -> dict[str, Observation]:
        """As for any supervised job; children that ended are reaped on the way."""
        for child in self._children.values():
            child.poll()
        return super().observe(watched)

    def stop(self, watched: Sequence[Watched], force: bool) -> None:
        """Tell the supervisors, which pass it on to all of a job's processes."""
        for item in watched:
            pid = self._pid(item)
            if pid is not None:
                signal_supervisor(pid, force)

    def prepare(self, launches: Sequence[Launch]) -> list[str]:
        """The commands themselves; there are no files."""
        return [self._commands.printed(launch.job) for launch in launches]

    def command(self, launch: Launch) -> list[str]:
        """What is executed; other local back ends replace this."""
        return self._commands.supervised(launch)

    def _start(self, launches: Sequence[Launch]) -> list[Started]:
        return [self._start_one(launch) for launch in launches]

    def _start_one(self, launch: Launch) -> Started:
        log = self._files.log(launch.job.id)
        # Python programs hold back what they print to a file, which hides the end of a log that is followed.
        environment = {"PYTHONUNBUFFERED": "1", **os.environ, **self._commands.environment(launch)}
        try:
            with log.open("ab") as output:
                child = subprocess.Popen(
                    self.command(launch),
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            return Started(error=f"it can't be started: {error}")
        self._children[launch.job.id] = child
        return Started(id=str(child.pid), pid=child.pid, log=str(log))

    def _find(self, watched: Sequence[Watched]) -> dict[str, Observation]:
        return {item.job_id: RUNNING for item in watched if self._pid(item) is not None}

    def _vanished(self, item: Watched) -> Observation:
        child = self._children.get(item.job_id)
        if child is None or child.returncode is None:
            return super()._vanished(item)
        return Observation(Phase.ENDED, exit_code=child.returncode, detail="its supervisor was killed")

    def _pid(self, item: Watched) -> int | None:
        """The supervisor, if it lives; one of an earlier launcher may not have been noted down any more."""
        child = self._children.get(item.job_id)
        if child is not None:
            return child.pid if child.poll() is None else None
        pid = self._supervisor_pid(item)
        if pid is None and self._result(item) is None:
            noted = item.attempt.pid
            pid = noted if noted is not None and process_alive(noted, item.attempt.start) else None
        return pid

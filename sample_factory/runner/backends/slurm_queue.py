"""Asks Slurm what became of jobs, not more often than its controller likes.

Invariant: an answer of `states` is never older than `poll_sec`, and never from before the last
submission.
"""

from __future__ import annotations

import getpass
import subprocess
import time

_PATIENCE_SEC = 60.0
RUNNING_STATES = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "STOPPED"})
FINAL_STATES = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "TIMEOUT",
    }
)


class SlurmQueue:
    """The states of this user's jobs.

    Args:
        poll_sec: how old an answer may be.
    """

    def __init__(self, poll_sec: float):
        self._poll_sec = poll_sec
        self._states: dict[str, str] = {}
        self._comments: dict[str, str] = {}
        self._asked_at = float("-inf")

    def forget(self) -> None:
        """Ask again next time, because jobs were submitted."""
        self._asked_at = float("-inf")

    def states(self) -> dict[str, str] | None:
        """State by job id, also of jobs that ended a little while ago; None when Slurm can't be asked."""
        if time.monotonic() - self._asked_at < self._poll_sec:
            return self._states
        # "all" includes what has ended, for as long as the controller remembers; -r lists tasks of arrays.
        output = _output(["squeue", "-h", "-r", "-t", "all", "-u", getpass.getuser(), "-o", "%i|%T|%k"])
        if output is None:
            return None
        rows = [line.split("|", 2) for line in output.splitlines() if line.count("|") >= 2]
        self._states = {name: state for name, state, _ in rows}
        self._comments = {name: comment for name, _, comment in rows}
        self._asked_at = time.monotonic()
        return self._states

    def id_of(self, token: str) -> str | None:
        """The id, without the number of a task, of the job whose comment has this word; see `states`."""
        for name, comment in self._comments.items():
            if token in comment.split():
                return name.partition("_")[0]
        return None

    @staticmethod
    def accounted_state(job_id: str) -> str | None:
        """What the accounting database says of a job that the controller has forgotten, if there is one."""
        output = _output(["sacct", "-X", "-n", "-P", "-j", job_id, "-o", "State"])
        return output.split()[0] if output and output.split() else None


def _output(command: list[str]) -> str | None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SEC,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None

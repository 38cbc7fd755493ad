"""What becomes of a job whose attempt has ended.

The engine asks while it runs, `resume` when it finds out later. Invariant: COMPLETED means exit code 0
and nothing else.
"""

from __future__ import annotations

from pathlib import Path

from sample_factory.runner.backends.base import Observation
from sample_factory.runner.errors import ExitCode
from sample_factory.runner.failure import root_error
from sample_factory.runner.manifest import State

CAN_GO_ON = "the same command goes on"


def judge(observation: Observation, log: Path) -> tuple[State, str]:
    """The job's new state and the reason; QUEUED means it was pre-empted and should start again.

    Args:
        observation: of an attempt that ended.
        log: what it printed.
    """
    if observation.exit_code == ExitCode.OK:
        return State.COMPLETED, ""
    if observation.timed_out:
        return State.TIMEOUT, f"the time limit was reached; {CAN_GO_ON}"
    if observation.stopped:
        return State.INTERRUPTED, f"stopped; {CAN_GO_ON}"
    if observation.exit_code == ExitCode.REQUEUE:
        return State.QUEUED, "pre-empted"
    return State.FAILED, root_error(log, observation.exit_code, observation.detail)

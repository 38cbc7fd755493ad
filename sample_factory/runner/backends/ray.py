"""Jobs as tasks of an existing Ray cluster, which finds CPUs and GPUs for them.

Each task runs the job's supervisor on some node; `--train_dir` must be on a disk that all nodes share.
Ray ends the tasks of a launcher that dies, and the supervisors pass that on, so a launcher that is
started again starts those jobs again. Invariant: `ray` is imported when this back end is chosen, and not
before.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from sample_factory.runner.backends.base import (
    RUNNING,
    WAITING,
    Observation,
    Phase,
    Started,
    SupervisedBackend,
    Watched,
)
from sample_factory.runner.commands import JobCommands, Launch
from sample_factory.runner.errors import RunnerError
from sample_factory.runner.results import JobResult

_CONNECT_SEC = 10.0
_INTO_LOG = 'exec "$@" >>"$0" 2>&1'


@dataclass(frozen=True)
class RayOptions:
    """The `--ray_*` flags."""

    address: str = "auto"
    cpus_per_job: float = 1.0
    gpus_per_job: float = 0.0


class RayBackend(SupervisedBackend):
    """Submits tasks to Ray.

    Args:
        commands: what to run.
        options: which cluster, and what a job asks of it.
    """

    name = "ray"
    poll_seconds = 0.2

    def __init__(self, commands: JobCommands, options: RayOptions):
        super().__init__(commands)
        self._options = options
        self._ray = _import_ray()
        try:
            _check_reachable(options.address)
            self._ray.init(address=options.address, log_to_driver=False, configure_logging=False)
        except (ConnectionError, TimeoutError) as error:
            raise RunnerError(
                f"No Ray cluster at --ray_address={options.address} ({error}); start one: ray start --head"
            ) from error
        # A function of the standard library, so that nodes need nothing of ours to be importable.
        self._run = self._ray.remote(max_retries=0)(subprocess.run)
        self._tasks: dict[str, Any] = {}

    def stop(self, watched: Sequence[Watched], force: bool) -> None:
        """Tell supervisors on their nodes; a task that waits for a node is cancelled."""
        for item in watched:
            result = self._result(item)
            task = self._tasks.get(item.job_id)
            if result is not None and result.exit_code is None:
                self._kill(result, "-QUIT" if force else "-TERM")
            elif task is not None:
                self._ray.cancel(task, force=force)

    def close(self) -> None:
        """Leave the cluster."""
        self._ray.shutdown()

    def _start(self, launches: Sequence[Launch]) -> list[Started]:
        return [self._submit(launch) for launch in launches]

    def _submit(self, launch: Launch) -> Started:
        log = self._files.log(launch.job.id).absolute()
        supervised = self._commands.supervised(launch, "--die_with_parent", "--env_from_stdin")
        request = self._run.options(
            num_cpus=self._options.cpus_per_job, num_gpus=self._options.gpus_per_job, name=launch.job.name
        )
        task = request.remote(
            ["bash", "-c", _INTO_LOG, str(log), *supervised],
            input=json.dumps({**_passed_on(), **self._commands.environment(launch)}),
            text=True,
        )
        self._tasks[launch.job.id] = task
        return Started(id=task.task_id().hex(), log=str(log))

    def _find(self, watched: Sequence[Watched]) -> dict[str, Observation]:
        """Tasks of this launcher that have not ended; those of an earlier one ended with it."""
        pending = {item.job_id: self._tasks[item.job_id] for item in watched if item.job_id in self._tasks}
        if not pending:
            return {}
        ready, _ = self._ray.wait(list(pending.values()), num_returns=len(pending), timeout=0)
        return {
            job_id: RUNNING if self._has_started(job_id, watched) else WAITING
            for job_id, task in pending.items()
            if task not in ready
        }

    def _has_started(self, job_id: str, watched: Sequence[Watched]) -> bool:
        return any(item.job_id == job_id and self._result(item) is not None for item in watched)

    def _supervised(self, item: Watched, result: JobResult) -> bool:
        """Ray knows about its own tasks; those of a launcher that died may still be ending."""
        return item.job_id not in self._tasks and super()._supervised(item, result)

    def _vanished(self, item: Watched) -> Observation:
        """What Ray says of a task whose supervisor left no result."""
        task = self._tasks.get(item.job_id)
        if task is None:
            return super()._vanished(item)
        try:
            done = self._ray.get(task)
        except self._ray.exceptions.TaskCancelledError:
            return Observation(Phase.ENDED, stopped=True)
        except self._ray.exceptions.RayError as error:
            return Observation(Phase.ENDED, detail=f"Ray: {str(error).splitlines()[0]}")
        return Observation(Phase.ENDED, exit_code=done.returncode)

    def _kill(self, result: JobResult, flag: str) -> None:
        """Runs `kill` where the supervisor runs; needs no CPU, so it does not queue behind the jobs."""
        strategy = "DEFAULT"
        for node in self._ray.nodes():
            if node["Alive"] and node["NodeManagerHostname"] == result.host:
                strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                    node["NodeID"], soft=False
                )
        task = self._run.options(num_cpus=0, scheduling_strategy=strategy)
        self._ray.get(task.remote(["kill", flag, str(result.pid)]))


def _check_reachable(address: str) -> None:
    """Ray itself tries for minutes; a cluster that is there answers at once."""
    host, separator, port = address.rpartition(":")
    if separator and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SEC).close()


def _passed_on() -> dict[str, str]:
    """Nodes have the environment of `ray start`, and not the launcher's; this much of it jobs need."""
    return {
        name: value for name, value in os.environ.items() if name.startswith("WANDB_") or name == "PYTHONPATH"
    }


def _import_ray() -> ModuleType:
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise RunnerError("--runner=ray needs the package ray; install it with: pip install ray") from error
    return ray

"""What is really executed for a job: interpreter, set-up lines, container, supervisor, environment.

Back ends ask for the layer they need. Inside out: the described command; in a container; after the set-up
lines; under `job_process`, which writes the result. Invariant: secrets travel in `environment` only,
never in a command or script.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sample_factory.runner.containers import Container
from sample_factory.runner.jobs import Job
from sample_factory.runner.run_files import RunFiles
from sample_factory.runner.secrets import secret_names, writable

_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
_SUPERVISOR = Path(__file__).with_name("job_process.py")
ALL_GPUS = "all"


@dataclass(frozen=True)
class Launch:
    """One attempt that is about to start."""

    job: Job
    attempt: int
    gpu: str | None = None


@dataclass(frozen=True)
class JobCommands:
    """Builds the commands of a run's jobs.

    Attributes:
        files: where results go.
        setup: shell lines that run before each job, e.g. `module load cuda`.
        container: the container each job runs in, if any.
        variables: environment variables of all jobs.
        time_limit_sec: of one attempt; 0 is none.
        margin_sec: how long before the limit a job is asked to save and leave.
        grace_sec: how long a job that is told to stop may take.
        own_python: whether a leading `python` means the interpreter of the launcher.
        prefix: what starts the command, e.g. `srun`.
    """

    files: RunFiles
    setup: Sequence[str] = ()
    container: Container | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    time_limit_sec: int = 0
    margin_sec: float = 120.0
    grace_sec: float = 30.0
    own_python: bool = True
    prefix: Sequence[str] = ()

    def environment(self, launch: Launch) -> dict[str, str]:
        """The variables a job gets on top of the environment it is started in."""
        environment = {**self.variables, **launch.job.env}
        if launch.gpu is not None and launch.gpu != ALL_GPUS:
            environment["CUDA_VISIBLE_DEVICES"] = launch.gpu
        return environment

    def command(self, launch: Launch) -> list[str]:
        """The job's command with everything it needs around it, but without supervision."""
        command = list(launch.job.argv)
        if self.container is not None:
            names = {*self.environment(launch), *(name for name in os.environ if name.startswith("WANDB_"))}
            command = self.container.wrap(command, sorted(names), launch.gpu)
        elif self.own_python and _PYTHON.fullmatch(command[0]):
            command[0] = sys.executable
        command = [*self.prefix, *command]
        if self.setup:
            lines = [*self.setup, 'exec "$@"']
            command = ["bash", "-c", " && ".join(lines), "bash", *command]
        return command

    def supervised(self, launch: Launch, *options: str, command: Sequence[str] = ()) -> list[str]:
        """The command under `job_process`.

        Args:
            launch: the attempt.
            *options: more flags of `job_process`.
            command: what to run instead of the job's own command.
        """
        # Without site-packages and the user's settings it starts in milliseconds and under any interpreter.
        supervisor = [sys.executable, "-I", "-S", str(_SUPERVISOR)]
        result = self.files.result(launch.job.id, launch.attempt).absolute()
        flags = [f"--attempt={launch.attempt}", f"--cwd={Path.cwd()}"]
        flags += [f"--grace={self.grace_sec:g}", f"--margin={self.margin_sec:g}"]
        if self.time_limit_sec:
            flags.append(f"--time_limit={self.time_limit_sec}")
        return [*supervisor, str(result), *flags, *options, "--", *(command or self.command(launch))]

    def printed(self, job: Job) -> str:
        """The described command for people: it runs in a shell, one line, variables in front."""
        variables = [f"{key}={value}" for key, value in writable({**self.variables, **job.env}).items()]
        return shlex.join([*(["env", *variables] if variables else []), *job.argv])

    def script_lines(self, launch: Launch, command: Sequence[str]) -> list[str]:
        """The lines of a shell script that becomes `command`; secrets are asked for by name."""
        environment = self.environment(launch)
        return [
            f"# Starts {launch.job.name}; written by sample_factory.runner.",
            *(
                f': "${{{name}:?export {name} first, it is not written to files}}"'
                for name in secret_names(environment)
            ),
            *(f"export {name}={shlex.quote(value)}" for name, value in writable(environment).items()),
            f"exec {shlex.join(command)}",
        ]

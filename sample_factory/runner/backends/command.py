"""Jobs handed to any other program through a template: NGC, PBS, LSF, kubectl, `ray job submit`.

The template's command submits a job and returns; from then on it is out of our sight, except that a
finished experiment of ours leaves a `done` file. With `--wait` the command lasts as long as the job and
its exit code is the job's. Invariant: the command gets secrets in its environment; the text that is run
never holds them.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sample_factory.runner.backends.base import WAITING, Backend, Observation, Phase, Started, Watched
from sample_factory.runner.backends.processes import ProcessesBackend
from sample_factory.runner.commands import JobCommands, Launch
from sample_factory.runner.errors import ExitCode, RunnerError
from sample_factory.runner.run_files import DONE_FILE

_LONGEST_ID = 80


@dataclass(frozen=True)
class CommandTemplate:
    """A command with `{{ name }}`, `{{ experiment_cmd }}` and `{{ train_dir }}` to fill in."""

    text: str
    train_dir: str

    @classmethod
    def load(cls, path: str | None, flag: str, train_dir: str) -> CommandTemplate:
        """Read a template; line breaks and backslashes before them are layout.

        Raises:
            RunnerError: when there is none.
        """
        if path is None:
            raise RunnerError(
                f"{flag} is missing: name a file with {{{{ name }}}} and {{{{ experiment_cmd }}}}."
            )
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise RunnerError(f"{flag}={path} can't be read ({error.strerror}).") from error
        if "{{ experiment_cmd }}" not in text:
            raise RunnerError(
                f"{flag}={path} does not say where the command goes: write {{{{ experiment_cmd }}}}."
            )
        return cls(" ".join(text.replace("\\\n", " ").split()), train_dir)

    def fill_in(self, name: str, command: str) -> str:
        """The command for one job."""
        text = self.text.replace("{{ name }}", name).replace("{{ train_dir }}", self.train_dir)
        return text.replace("{{ experiment_cmd }}", command)


class CommandBackend(Backend):
    """Runs the template once for each job, to submit it."""

    name = "command"
    outlives_launcher = True
    poll_seconds = 1.0

    def __init__(self, commands: JobCommands, template: CommandTemplate):
        self._commands = commands
        self._template = template

    def start(self, launches: Sequence[Launch]) -> list[Started]:
        """Submit."""
        return [self._submit(launch) for launch in launches]

    def observe(self, watched: Sequence[Watched]) -> dict[str, Observation]:
        """Experiments that left a `done` file are complete; nothing is known of the others."""
        return {item.job_id: _done(item) for item in watched}

    def stop(self, watched: Sequence[Watched], force: bool) -> None:
        """Not possible from here.

        Raises:
            RunnerError: always.
        """
        raise RunnerError(
            f"Jobs of --runner={self.name} can only be cancelled by the program that took them: "
            + ", ".join(item.attempt.id for item in watched)
        )

    def prepare(self, launches: Sequence[Launch]) -> list[str]:
        """The commands."""
        return [self._text(launch) for launch in launches]

    def _text(self, launch: Launch) -> str:
        return self._template.fill_in(launch.job.name, self._commands.printed(launch.job))

    def _submit(self, launch: Launch) -> Started:
        log = self._commands.files.log(launch.job.id)
        environment = {**os.environ, **self._commands.environment(launch)}
        with log.open("a", encoding="utf-8") as output:
            done = subprocess.run(
                self._text(launch),
                shell=True,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                check=False,
            )
            output.write(done.stdout)
        if done.returncode:
            return Started(
                log=str(log), error=f"the command of the template ended with exit code {done.returncode}"
            )
        answer = (done.stdout.strip().splitlines() or ["submitted"])[-1]
        return Started(id=answer[:_LONGEST_ID], log=str(log))


class NgcBackend(CommandBackend):
    """v1's `--runner=ngc`: the same with another flag."""

    name = "ngc"


class BlockingCommandBackend(ProcessesBackend):
    """Runs the template as a local process that lasts as long as the job."""

    name = "command_wait"

    def __init__(self, commands: JobCommands, template: CommandTemplate):
        super().__init__(commands)
        self._template = template

    def command(self, launch: Launch) -> list[str]:
        """The template in a shell, supervised."""
        text = self._template.fill_in(launch.job.name, shlex.join(self._commands.command(launch)))
        return self._commands.supervised(launch, command=["bash", "-c", text])


def _done(item: Watched) -> Observation:
    if item.directory and (Path(item.directory) / DONE_FILE).exists():
        return Observation(Phase.ENDED, exit_code=ExitCode.OK)
    return WAITING

"""From a description to jobs: one command each, checked before anything starts.

`run` plans, the engine runs. Invariant: job ids are unique within a run, no two jobs write to the same
experiment directory, and no command holds a secret.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sample_factory.runner.errors import RunnerError
from sample_factory.runner.manifest import JobRecord
from sample_factory.runner.run_description import PlannedExperiment, RunDescription
from sample_factory.runner.secrets import check_command, without_values

LONG_NAME = 100  # from here on v1 warned
LONGEST_NAME = 235  # file systems take 255 bytes, and endings are added


@dataclass(frozen=True)
class Job:
    """One experiment to run.

    Attributes:
        id: the name; with a number if several jobs of other programs share one name.
        index: its position in the run.
        name: the experiment's name.
        root_dir: the directory of its group, below `--train_dir`.
        argv: the described command.
        env: its own environment variables, secrets included; never written down as they are.
        params: what distinguishes it.
        directory: the experiment's own directory, if the command is ours.
    """

    id: str
    index: int
    name: str
    root_dir: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    params: Mapping[str, Any]
    directory: Path | None

    def record(self) -> JobRecord:
        """A fresh entry for the manifest."""
        return JobRecord(
            id=self.id,
            index=self.index,
            name=self.name,
            root_dir=self.root_dir,
            argv=list(self.argv),
            env=without_values(self.env),
            params={key: _plain(value) for key, value in self.params.items()},
            directory="" if self.directory is None else str(self.directory),
        )


def plan_jobs(description: RunDescription, train_dir: str, makedirs: bool = True) -> list[Job]:
    """The jobs of a description.

    Raises:
        RunnerError: when two jobs would share a directory, a name is too long or a command holds a secret.
    """
    planned = list(description.expand(train_dir, makedirs))
    if not planned:
        raise RunnerError(f"The run {description.run_name!r} describes no experiments.")
    own_directories = description.experiment_dirs_sf_format
    if own_directories:
        _check_directories(planned)
    ids = _unique_ids([experiment.name.replace("/", "-") for experiment in planned])
    return [
        _make_job(experiment, ids[index], index, Path(train_dir) if own_directories else None)
        for index, experiment in enumerate(planned)
    ]


def long_names(jobs: list[Job]) -> list[str]:
    """Names that some tools have trouble with."""
    return [job.name for job in jobs if len(job.name) > LONG_NAME]


def _make_job(experiment: PlannedExperiment, job_id: str, index: int, train_dir: Path | None) -> Job:
    if len(job_id.encode()) > LONGEST_NAME:
        raise RunnerError(
            f"The name {job_id[:60]}... is too long for a file; name fewer parameters, or pass "
            "customize_experiment_name=False to RunDescription."
        )
    argv = _split(experiment.command)
    check_command(argv, experiment.env_vars)
    return Job(
        id=job_id,
        index=index,
        name=experiment.name,
        root_dir=experiment.root_dir,
        argv=tuple(argv),
        env=experiment.env_vars,
        params=experiment.params,
        directory=None if train_dir is None else train_dir / experiment.root_dir / experiment.name,
    )


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise RunnerError(f"The command {command!r} can't be read ({error}); close the quotes.") from error


def _check_directories(planned: list[PlannedExperiment]) -> None:
    counts = Counter((experiment.root_dir, experiment.name) for experiment in planned)
    shared = [f"{root_dir}/{name}" for (root_dir, name), count in counts.items() if count > 1]
    if shared:
        raise RunnerError(
            f"Several experiments would write to {shared[0]}; give Experiment(...) names that differ, and "
            "leave customize_experiment_name=True."
        )


def _unique_ids(names: list[str]) -> list[str]:
    """Programs of others may share a name among jobs; our files need one each."""
    seen: Counter[str] = Counter()
    ids = []
    for name in names:
        seen[name] += 1
        ids.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return ids


def _plain(value: Any) -> Any:
    """A value as JSON has it; numpy's numbers come from grids made with numpy."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)

"""The Python interface for descriptions: `RunDescription`, `Experiment`, `ParamGrid`, `ParamList`.

Scripts define `RUN_DESCRIPTION = RunDescription(...)`; `jobs.plan_jobs` turns it into jobs. Interface,
names and directories are v1's: experiments land in `<train_dir>/<run name>/<experiment>_<suffix>/<name>`.
Invariant: commands are text that `shlex.split` turns back into the values that were meant.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sample_factory.runner.naming import experiment_name
from sample_factory.runner.parameters import ParamGenerator, ParamGrid, ParamList, Params, ParamSample

__all__ = [
    "Experiment",
    "ParamGenerator",
    "ParamGrid",
    "ParamList",
    "ParamSample",
    "PlannedExperiment",
    "RunDescription",
]


class PlannedExperiment(NamedTuple):
    """One experiment of a description, ready to become a job."""

    command: str
    name: str
    root_dir: str
    env_vars: dict[str, str]
    params: Params


class Experiment:
    """Experiments that share a command and differ in parameters.

    Args:
        name: the base of their names.
        cmd: the command, to which parameters are added.
        param_generator: a dictionary of parameters for each experiment; none is one plain experiment.
        env_vars: environment variables of the jobs.
        named_params: the parameters that names show; all of them when None.
    """

    def __init__(
        self,
        name: str,
        cmd: str,
        param_generator: Iterable[Params] = (),
        env_vars: Mapping[str, Any] | None = None,
        *,
        named_params: Collection[str] | None = None,
    ):
        self.base_name = name
        self.cmd = cmd
        self.params = [dict(params) for params in param_generator]
        self.env_vars = {key: str(value) for key, value in (env_vars or {}).items()}
        self.named_params = named_params

    def expand(self, customize_experiment_name: bool, param_prefix: str) -> Iterator[tuple[str, str, Params]]:
        """Command, name and parameters of each experiment; the command does not say the name yet."""
        for index, params in enumerate(self.params or [{}]):
            command = " ".join([self.cmd, *command_tokens(params, param_prefix)])
            name = self.base_name
            if customize_experiment_name:
                named = params.keys() if self.named_params is None else self.named_params
                name = experiment_name(index, self.base_name, params, named)
            yield command, name, params

    def generate_experiments(
        self,
        experiment_arg_name: str = "--experiment",
        customize_experiment_name: bool = True,
        param_prefix: str = "--",
    ) -> Iterator[tuple[str, str]]:
        """Command and name of each experiment."""
        for command, name, _ in self.expand(customize_experiment_name, param_prefix):
            yield f"{command} {experiment_arg_name}={shlex.quote(name)}", name


class RunDescription:
    """Everything one launch is about.

    Args:
        run_name: the directory below `--train_dir` that holds the experiments.
        experiments: what to run.
        experiment_dirs_sf_format: whether commands take Sample Factory's `--train_dir` and
            `--experiments_root`; otherwise they get one directory as `experiment_dir_arg_name`.
        experiment_arg_name: the flag that takes an experiment's name.
        experiment_dir_arg_name: the flag that takes the directory, for other programs than ours.
        customize_experiment_name: False leaves index and parameters out of the names.
        param_prefix: what comes before parameters in commands; empty for Hydra.
    """

    def __init__(  # noqa: PLR0913 - v1's constructor
        self,
        run_name: str,
        experiments: Sequence[Experiment],
        experiment_dirs_sf_format: bool = True,
        experiment_arg_name: str = "--experiment",
        experiment_dir_arg_name: str = "--train_dir",
        customize_experiment_name: bool = True,
        param_prefix: str = "--",
    ):
        self.run_name = run_name
        self.experiments = experiments
        self.experiment_suffix = ""
        self.experiment_dirs_sf_format = experiment_dirs_sf_format
        self.experiment_arg_name = experiment_arg_name
        self.experiment_dir_arg_name = experiment_dir_arg_name
        self.customize_experiment_name = customize_experiment_name
        self.param_prefix = param_prefix

    def expand(self, train_dir: str, makedirs: bool = True) -> Iterator[PlannedExperiment]:
        """The experiments with complete commands.

        Args:
            train_dir: where experiments go, as commands are told it.
            makedirs: whether to create the directories that other programs than ours expect.
        """
        for experiment in self.experiments:
            root_dir = os.path.join(self.run_name, f"{experiment.base_name}_{self.experiment_suffix}")
            if makedirs and not self.experiment_dirs_sf_format:
                os.makedirs(os.path.join(train_dir, root_dir), exist_ok=True)
            tail = " ".join(self._directory_flags(train_dir, root_dir))
            for command, name, params in experiment.expand(self.customize_experiment_name, self.param_prefix):
                complete = f"{command} {self.experiment_arg_name}={shlex.quote(name)} {tail}"
                yield PlannedExperiment(complete, name, root_dir, experiment.env_vars, params)

    def generate_experiments(
        self, train_dir: str, makedirs: bool = True
    ) -> Iterator[tuple[str, str, str, dict[str, str]]]:
        """v1's view of the experiments: command, name, directory below `train_dir`, variables."""
        for planned in self.expand(train_dir, makedirs):
            yield planned.command, planned.name, planned.root_dir, planned.env_vars

    def _directory_flags(self, train_dir: str, root_dir: str) -> list[str]:
        if self.experiment_dirs_sf_format:
            return [f"--train_dir={shlex.quote(train_dir)}", f"--experiments_root={shlex.quote(root_dir)}"]
        return [f"{self.experiment_dir_arg_name}={shlex.quote(os.path.join(train_dir, root_dir))}"]


def command_tokens(params: Params, param_prefix: str = "--") -> list[str]:
    """Parameters as they are typed, quoted for a shell; lists are space separated, as flags take them."""
    tokens: list[str] = []
    for key, value in params.items():
        if isinstance(value, list | tuple) and param_prefix:
            tokens += [f"{param_prefix}{key}", *(shlex.quote(str(item)) for item in value)]
        else:
            tokens.append(f"{param_prefix}{key}={shlex.quote(str(value))}")
    return tokens

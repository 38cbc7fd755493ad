"""The jobs of a configuration: one training per environment and seed.

Both phases make their jobs here, and the runner's engine runs them. Runs lie in
`<study>/search/trial_0007/seed_1` and `<study>/confirm/trial_0007/seed_100`.

Invariant: the same configuration, phase and seed give the same job, so a tuner that is started again finds
what its predecessor has trained.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from sample_factory.benchmark.run_record import ALGO_LABEL_VARIABLE
from sample_factory.runner.jobs import Job
from sample_factory.runner.run_description import command_tokens
from sample_factory.tune.flags import TuneOptions
from sample_factory.tune.objective import RunKey
from sample_factory.tune.space import Params

SEARCH, CONFIRM = "search", "confirm"
DEFAULT_TRIAL = 0


def trial_label(number: int) -> str:
    """What a trial is called in directories and tables."""
    return f"trial_{number:04d}"


def make_jobs(
    options: TuneOptions, phase: str, number: int, params: Params, keys: Iterable[RunKey]
) -> dict[RunKey, Job]:
    """The jobs of a trial.

    Args:
        options: the study.
        phase: SEARCH or CONFIRM.
        number: of the trial.
        params: what distinguishes its configuration.
        keys: environments and seeds.
    """
    return {key: _job(options, phase, number, params, key) for key in keys}


def _job(options: TuneOptions, phase: str, number: int, params: Params, key: RunKey) -> Job:
    env, seed = key
    several = len(options.objective.envs) > 1
    name = f"{re.sub(r'[^A-Za-z0-9._-]', '-', env)}_seed_{seed}" if several else f"seed_{seed}"
    root_dir = f"{options.study_name}/{phase}/{trial_label(number)}"
    train_dir = options.runner.train_dir
    settings = {"algo": options.algo, "env": env, "seed": seed, **options.params, **params}
    places = {"experiment": name, "train_dir": train_dir, "experiments_root": root_dir}
    command = " ".join([options.command, *command_tokens({**settings, **places})])
    return Job(
        id=f"{phase}_{trial_label(number)}_{name}",
        index=number,
        name=name,
        root_dir=root_dir,
        argv=tuple(shlex.split(command)),
        # So that tables of these runs have a row per trial.
        env={ALGO_LABEL_VARIABLE: trial_label(number)},
        params=params | {"env": env, "seed": seed},
        directory=Path(train_dir) / root_dir / name,
    )

"""Checks that the machine has room for a session before anything is started."""

from __future__ import annotations

import resource

import psutil

from sample_factory.algorithms.appo.plan import Plan
from sample_factory.config.errors import ConfigError

SPARE_FDS = 64
FDS_PER_WORKER = (
    8  # report pipe, stack file, process sentinels and what else the main process keeps per worker
)
USABLE_MEMORY = 0.9


def check_machine(plan: Plan, store_mb: float) -> None:
    """Raises `ConfigError` with one sentence for each thing that is too small."""
    problems = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = SPARE_FDS + FDS_PER_WORKER * len(plan.component_names())
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard == resource.RLIM_INFINITY or needed <= hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        else:
            problems.append(
                f"{len(plan.component_names())} processes need {needed} open files, but the limit is {hard}: "
                f"raise it (ulimit -n {needed}) or use fewer --num_workers (now {plan.num_workers})."
            )
    available_mb = psutil.virtual_memory().available / 2**20
    if store_mb > USABLE_MEMORY * available_mb:
        problems.append(
            f"the trajectories need {store_mb:.0f} MB of shared memory, but {available_mb:.0f} MB are free: "
            "use a smaller --batch_size, --rollout or --num_envs_per_worker."
        )
    if problems:
        raise ConfigError(problems)

"""Checks that the machine has room for a session before anything is started.

Trajectories and weights are anonymous memory (memfd): they count against the memory of the machine and of the
container, not against the size of /dev/shm, which may be as small as containers make it.
"""

from __future__ import annotations

import resource
from pathlib import Path

import psutil

from sample_factory.algorithms.appo.plan import Plan
from sample_factory.config.errors import ConfigError

SPARE_FDS = 64
FDS_PER_WORKER = (
    8  # report pipe, stack file, process sentinels and what else the main process keeps per worker
)
USABLE_MEMORY = 0.9
# Limit and usage of the control group, in version 2 and version 1 of the kernel's interface.
CONTAINER_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


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
    available_mb = available_memory_mb()
    if store_mb > USABLE_MEMORY * available_mb:
        problems.append(
            f"the trajectories need {store_mb:.0f} MB of shared memory, but {available_mb:.0f} MB are free: "
            "use a smaller --batch_size, --rollout or --num_envs_per_worker."
        )
    if problems:
        raise ConfigError(problems)


def available_memory_mb() -> float:
    """What the machine has left, or the container if that is less."""
    available = psutil.virtual_memory().available
    for limit_file, usage_file in CONTAINER_FILES:
        try:
            limit, usage = (Path(file).read_text().strip() for file in (limit_file, usage_file))
        except OSError:
            continue
        if limit.isdigit():  # version 2 says "max" where there is no limit
            available = min(available, max(0, int(limit) - int(usage)))
    return available / 2**20

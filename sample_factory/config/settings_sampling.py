"""Settings of experience collection.

Read by rollout workers, policy workers and the code that sizes the shared memory they fill for the learner.
"""

from __future__ import annotations

import os

from sample_factory.config.setting import DefaultFactory, Setting, in_group

CPU_COUNT = DefaultFactory("<CPU count>", lambda: os.cpu_count() or 1)

NUM_WORKERS = Setting(
    "num_workers", int, CPU_COUNT, "Rollout workers: processes that step environments.", minimum=1
)
CPU_AFFINITY = Setting(
    "set_workers_cpu_affinity", bool, True, "Pin each rollout worker to its share of the CPU cores."
)

_WORKERS = in_group(
    "rollout workers",
    NUM_WORKERS,
    Setting(
        "num_envs_per_worker",
        int,
        2,
        "Environments stepped by each rollout worker; a multiple of --worker_num_splits.",
        minimum=1,
    ),
    Setting(
        "worker_num_splits",
        int,
        2,
        "Parts a worker's environments are divided into: while one waits for actions another is stepped.",
        minimum=1,
    ),
    Setting("rollout", int, 32, "Steps in one trajectory.", minimum=1),
    Setting(
        "traj_buffers_excess_ratio",
        float,
        1.3,
        "Shared memory for trajectories, as a multiple of what is needed at least; "
        "more lets workers run ahead of the learner.",
        minimum=1.0,
    ),
    Setting("reward_scale", float, 1.0, "Rewards are multiplied by this before learning."),
    Setting(
        "reward_clip",
        float,
        10.0,
        "Scaled rewards are clipped to plus or minus this before learning; reported returns are not.",
        above=0.0,
    ),
    Setting(
        "decorrelate_experience_max_seconds",
        int,
        10,
        "Workers pause once for different times up to this, so that not all send their trajectories at once.",
        minimum=0,
    ),
    Setting(
        "decorrelate_envs_on_one_worker",
        bool,
        True,
        "Start each environment of a worker with a different number of random steps.",
    ),
    CPU_AFFINITY,
    Setting(
        "force_envs_single_thread",
        bool,
        True,
        "Limit the thread pools of numerical libraries inside rollout workers to one thread.",
    ),
    Setting(
        "actor_worker_gpus",
        int,
        [],
        "GPUs that environments may use, given to rollout workers in turn; none by default.",
        nargs="*",
        minimum=0,
    ),
)

_POLICY_WORKERS = in_group(
    "policy workers",
    Setting(
        "inference",
        str,
        "auto",
        "Who runs the network while collecting: policy_workers batch requests of many rollout workers (GPUs, "
        "large networks), rollout_workers do it themselves (CPUs, small networks), auto decides.",
        choices=("auto", "policy_workers", "rollout_workers"),
    ),
    Setting("policy_workers_per_policy", int, 1, "Policy workers that serve each policy.", minimum=1),
    Setting(
        "max_policy_lag",
        int,
        10_000,
        "Experience collected by a policy this many SGD steps old, or older, is not trained on.",
        minimum=1,
    ),
)

SETTINGS = _WORKERS + _POLICY_WORKERS

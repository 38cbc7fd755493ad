"""Settings of the dummy sampler, which steps environments with random actions to find the speed ceiling.

Read by `algorithms.dummy_sampler`. It trains nothing, so it has no setting of the learner or the network.
"""

from __future__ import annotations

from sample_factory.config.setting import Setting, in_group
from sample_factory.config.settings_sampling import CPU_AFFINITY, NUM_WORKERS

SETTINGS = in_group(
    "dummy sampler",
    NUM_WORKERS,
    Setting("num_envs_per_worker", int, 1, "Environments stepped by each worker.", minimum=1),
    Setting("sample_env_frames", int, 2_000_000_000, "Stop after this many frames in all.", minimum=1),
    Setting(
        "sample_env_frames_per_worker",
        int,
        1_000_000_000,
        "A worker stops after this many frames.",
        minimum=1,
    ),
    Setting("timeout_seconds", int, 600, "Stop after this many seconds.", minimum=1),
    CPU_AFFINITY,
    Setting(
        "sampler_worker_gpus",
        int,
        [],
        "GPUs that environments may use, given to workers in turn; none by default.",
        nargs="*",
        minimum=0,
    ),
)

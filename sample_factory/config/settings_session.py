"""Settings of one training session: how long it runs, how it is run, what it saves, when it gives up.

Read by the session's main loop, the supervisor and the checkpoint writer.
"""

from __future__ import annotations

from sample_factory.config.setting import Setting, in_group

_SOURCE = in_group(
    "session",
    Setting(
        "cfg_file",
        str,
        None,
        "JSON or YAML file with settings, for example a tuned configuration or the cfg.json of another "
        "experiment; what is typed beside it wins.",
    ),
)

_STOPPING = in_group(
    "session",
    Setting(
        "train_for_env_steps",
        int,
        10_000_000_000,
        "Stop when every policy has consumed more frames than this, counted over all sessions.",
        minimum=0,
    ),
    Setting(
        "train_for_seconds",
        int,
        10_000_000_000,
        "Stop when this session has run for longer than this.",
        minimum=0,
    ),
    Setting(
        "execution_time",
        int,
        0,
        "Save and leave with exit code 75 after this many seconds, so that a scheduler starts the same "
        "command again; 0 never does.",
        minimum=0,
    ),
    Setting(
        "benchmark",
        bool,
        False,
        "Measure speed: stop after two million frames or one million steps; workers do not start staggered.",
    ),
    Setting(
        "sampler_only", bool, False, "Collect experience but never train; measures sampling with a network."
    ),
)

_RUNNING = in_group(
    "session",
    Setting("seed", int, None, "Seeds everything that can be seeded; None draws a fresh seed.", minimum=0),
    Setting(
        "restart_behavior",
        str,
        "resume",
        "What to do with an experiment directory that exists: resume continues it, restart moves it aside to "
        "<dir>_old0001, overwrite deletes it.",
        choices=("resume", "restart", "overwrite"),
    ),
    Setting(
        "async_rl",
        bool,
        True,
        "True: collect and train at the same time. False: take turns, so that no experience is outdated.",
    ),
    Setting(
        "serial_mode",
        bool,
        False,
        "Run everything in one process, in a fixed order: repeatable, and a debugger works.",
    ),
    Setting(
        "autotune",
        str,
        "off",
        "Spend a minute on finding fast settings for this machine and environment: number of workers, "
        "environments and splits, place of inference, learner threads, as far as they were not typed. on "
        "trains with them, only shows them and the command line to reuse.",
        choices=("off", "on", "only"),
        nargs="?",
        bare="on",
    ),
    Setting(
        "default_niceness",
        int,
        0,
        "Niceness of the learner; policy workers get 2 more and rollout workers 10 more, 20 at most.",
        minimum=-20,
        maximum=20,
    ),
)

_CHECKPOINTS = in_group(
    "checkpoints",
    Setting("save_every_sec", int, 120, "Seconds between checkpoints.", minimum=1),
    Setting("keep_checkpoints", int, 3, "Newest checkpoints kept per policy.", minimum=1),
    Setting(
        "save_milestones_sec",
        int,
        -1,
        "Seconds between checkpoints that are kept for good; -1 keeps none.",
        minimum=-1,
    ),
    Setting(
        "save_best_every_sec",
        int,
        5,
        "Seconds between checks whether the policy has become better than its best checkpoint.",
        minimum=1,
    ),
    Setting(
        "save_best_metric",
        str,
        "reward",
        "Episode statistic that decides which checkpoint is best, for example reward or true_reward.",
    ),
    Setting(
        "save_best_after",
        int,
        100_000,
        "Frames before the first best checkpoint is saved: early averages are noise.",
        minimum=0,
    ),
    Setting(
        "load_checkpoint_kind",
        str,
        "latest",
        "Which checkpoint a resumed session or an evaluation starts from.",
        choices=("latest", "best"),
    ),
)

_EVALUATION = in_group(
    "evaluation during training",
    Setting(
        "eval_every_env_steps",
        int,
        0,
        "Frames between evaluations by a process of its own beside training; they also decide which "
        "checkpoint is best. 0 is none.",
        minimum=0,
    ),
    Setting(
        "eval_env_episodes",
        int,
        16,
        "Episodes per evaluation during training.",
        minimum=1,
        aliases=("eval_episodes",),
    ),
    Setting(
        "eval_num_envs",
        int,
        4,
        "Environments that an evaluation during training steps side by side.",
        minimum=1,
    ),
    Setting("eval_deterministic", bool, False, "In evaluations always take the most likely action."),
    Setting(
        "eval_seed",
        int,
        None,
        "Seed of the episodes of evaluations, so that policies meet the same ones; None is 0 where policies "
        "are scored and a random one where they are shown.",
        minimum=0,
    ),
)

_SUPERVISION = in_group(
    "supervision",
    Setting(
        "reset_timeout_seconds",
        int,
        120,
        "Seconds a rollout worker may take to create and reset one environment before it is restarted.",
        minimum=1,
    ),
    Setting(
        "env_step_timeout_seconds",
        int,
        600,
        "Seconds one environment step may take before its rollout worker counts as stuck and is restarted.",
        minimum=1,
    ),
    Setting(
        "max_worker_restarts",
        int,
        5,
        "Times in a row a component may die without getting anything done before the session fails.",
        minimum=0,
    ),
    Setting(
        "heartbeat_reporting_interval",
        int,
        60,
        "Seconds without a sign of life after which a component's stack is logged; it is killed later, after "
        "--env_step_timeout_seconds.",
        minimum=1,
    ),
    Setting(
        "shutdown_timeout_seconds",
        int,
        10,
        "Seconds each component gets to finish at the end before it is killed.",
        minimum=0,
    ),
    Setting(
        "nan_guard_max_skips",
        int,
        10,
        "SGD steps in a row skipped because a loss or gradient is not finite, before the session stops.",
        minimum=0,
    ),
)

SETTINGS = _SOURCE + _STOPPING + _RUNNING + _CHECKPOINTS + _EVALUATION + _SUPERVISION

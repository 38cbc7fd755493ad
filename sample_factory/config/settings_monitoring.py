"""Settings of what a session shows and records.

Read by the monitoring package: console, log file, TensorBoard summaries, Weights & Biases. Keys and passwords
are never settings: `wandb login` stores its own.
"""

from __future__ import annotations

from sample_factory.config.setting import Setting, in_group

_REPORTS = in_group(
    "monitoring",
    Setting(
        "progress",
        str,
        "auto",
        "Console display: rich is a live panel, plain is lines, off is none; auto uses rich on a terminal.",
        choices=("auto", "rich", "plain", "off"),
    ),
    Setting("log_to_file", bool, True, "Also write the log to sf_log.txt in the experiment directory."),
    Setting("stats_avg", int, 100, "Episodes over which episode statistics are averaged.", minimum=1),
    Setting("experiment_summaries_interval", int, 20, "Seconds between summaries.", minimum=1),
    Setting(
        "flush_summaries_interval",
        int,
        30,
        "Seconds after which written summaries are on disk at the latest.",
        minimum=1,
    ),
)

_WANDB = in_group(
    "monitoring",
    Setting("with_wandb", bool, False, "Also record to Weights & Biases."),
    Setting("wandb_user", str, None, "Weights & Biases: user or team."),
    Setting("wandb_project", str, "sample_factory", "Weights & Biases: project."),
    Setting("wandb_group", str, None, "Weights & Biases: group; None uses the environment's name."),
    Setting("wandb_job_type", str, "SF", "Weights & Biases: job type."),
    Setting("wandb_tags", str, [], "Weights & Biases: tags, separated by spaces.", nargs="*"),
    Setting(
        "wandb_save_checkpoints",
        str,
        "none",
        "Weights & Biases: checkpoints to upload; best and all while training, last at its end.",
        choices=("none", "best", "last", "all"),
    ),
)

SETTINGS = _REPORTS + _WANDB

"""Which value of a setting counts: default < family's default < saved cfg.json < what was typed.

The parser has already put the first two and the last together, and remembers in `cli_args` what was typed;
`merge_with_saved` puts the saved values in between. Training and evaluation both go through `resolve`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from sample_factory.config.config import Config, experiment_dir
from sample_factory.config.errors import ConfigError
from sample_factory.config.experiment_files import CFG_FILE, cfg_path, read_cfg_file

AUTO_RECURRENCE = -1

# Where the files are and how this program was started are facts about now: an experiment that was copied to
# another machine says where it used to be, and one that was overwritten once must not be overwritten again.
NEVER_FROM_FILE = (
    "train_dir",
    "experiments_root",
    "experiment",
    "restart_behavior",
    "autotune",
    "command_line",
    "cli_args",
    "git_hash",
    "git_repo_name",
)


def merge_with_saved(cfg: Config, saved: Mapping[str, Any]) -> Config:
    """The configuration of a session that continues, or evaluates, an experiment with these saved values."""
    parsed = cfg.to_dict()
    of_this_run = {name: parsed[name] for name in NEVER_FROM_FILE if name in parsed}
    return with_recurrence(Config.from_dict({**parsed, **saved, **parsed.get("cli_args", {}), **of_this_run}))


def resolve(cfg: Config, evaluation: bool = False) -> Config:
    """The parsed configuration, completed by the experiment's cfg.json if there is one that counts.

    Raises:
        ConfigError: when cfg.json is damaged, or missing although a trained policy is to be evaluated.
    """
    path = cfg_path(cfg)
    if not path.exists():
        if evaluation:
            raise ConfigError(_no_experiment(cfg))
        return cfg
    if not evaluation and cfg.get("restart_behavior", "resume") != "resume":
        return cfg
    return merge_with_saved(cfg, read_cfg_file(path))


def with_recurrence(cfg: Config) -> Config:
    """The configuration with an automatic `--recurrence` replaced by the number it stands for."""
    if cfg.get("recurrence") != AUTO_RECURRENCE:
        return cfg
    values = cfg.to_dict()
    values["recurrence"] = cfg.rollout if cfg.use_rnn or cfg.with_vtrace else 1
    return Config.from_dict(values)


def _no_experiment(cfg: Config) -> str:
    directory = experiment_dir(cfg)
    others = sorted(path.parent.name for path in directory.parent.glob(f"*/{CFG_FILE}"))
    nearest = difflib.get_close_matches(directory.name, others, n=1)
    hint = f"; did you mean --experiment={nearest[0]}?" if nearest else "."
    return (
        f"No experiment to evaluate: {directory / CFG_FILE} does not exist. "
        f"Check --experiment={cfg.experiment} and --train_dir={cfg.train_dir}{hint}"
    )

"""`Config`: the values of all settings of one session, as attributes.

Made by the parser or read from cfg.json, then passed to every part of the program. It is flat, so a value has
one name everywhere: the flag's. Also here: where an experiment's files live.
Invariant: `Config.from_dict(cfg.to_dict()) == cfg`.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from sample_factory.config.errors import ConfigError


class Config(argparse.Namespace):
    """Settings by name: `cfg.batch_size`, `cfg["batch_size"]`, `"batch_size" in cfg`."""

    def __getitem__(self, name: str) -> Any:
        try:
            return vars(self)[name]
        except KeyError:
            raise KeyError(f"there is no setting {name!r}") from None

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a setting, or `default` where it does not exist."""
        return getattr(self, name, default)

    def to_dict(self) -> dict[str, Any]:
        """A copy of all values; changing it does not change the configuration."""
        return copy.deepcopy(vars(self))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """The configuration with these values."""
        return cls(**copy.deepcopy(dict(values)))


def experiment_dir(cfg: Config) -> Path:
    """The directory of an experiment, `<train_dir>/[<experiments_root>/]<experiment>`; may not exist yet.

    Raises:
        ConfigError: when the name would lead out of the train directory.
    """
    problems = location_problems(cfg)
    if problems:
        raise ConfigError(problems)
    return Path(cfg.train_dir).expanduser() / (cfg.get("experiments_root") or "") / cfg.experiment


def location_problems(cfg: Config) -> list[str]:
    """What is wrong with the names that make up the experiment directory."""
    problems = []
    if not _stays_inside(cfg.experiment):
        problems.append(_escapes("experiment", cfg.experiment, "my_experiment"))
    root = cfg.get("experiments_root")
    if root and not _stays_inside(root):
        problems.append(_escapes("experiments_root", root, "my_run/my_group"))
    return problems


def _stays_inside(name: Any) -> bool:
    if not isinstance(name, str) or "\0" in name:
        return False
    path = PurePath(name)
    # No parts is "" or ".": the directory of all experiments, which no experiment may be.
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _escapes(name: str, value: Any, example: str) -> str:
    return f"--{name}={value} must be a name inside --train_dir, for example --{name}={example}."

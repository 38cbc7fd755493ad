"""What only says where things were: directories, addresses of repositories, names of machines and users.

Files that go to others leave it out: published policies (`sf publish`) and records of benchmark runs.

Invariant: no setting that names a place, and no value that is an absolute path, is left; a setting without a
value has its default wherever the file is read.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

# By their names: these may be relative paths, or no paths at all.
PLACES = frozenset(
    {
        "base_dir",
        "experiments_root",
        "git_repo_name",
        "hostname",
        "model_path",
        "record_to",
        "save_traj_dir",
        "train_dir",
        "wandb_run_path",
        "wandb_unique_id",
        "wandb_user",
    }
)


def is_path(value: Any) -> bool:
    """Whether a value is a path that means nothing on other machines."""
    return isinstance(value, str) and (os.path.isabs(value) or value.startswith("~"))


def settings_without_places(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an experiment, without those that name a place."""
    return {
        name: value
        for name, value in settings.items()
        if name not in PLACES and not any(map(is_path, value if isinstance(value, list) else [value]))
    }


def command_without_places(command_line: str) -> str:
    """A command line without the flags that name a place; of other absolute paths the file name stays."""
    kept: list[str] = []
    drops_values = False
    for word in words_of(command_line):
        name, given, value = word.partition("=")
        if word.startswith("--"):
            drops_values = name[2:] in PLACES
        if drops_values:
            continue
        if word.startswith("--"):
            kept.append(f"{name}={_shortened(value)}" if given else word)
        else:
            kept.append(_shortened(word))
    return shlex.join(kept)


def _shortened(value: str) -> str:
    return PurePath(value).name if is_path(value) else value


def words_of(command_line: str) -> list[str]:
    """A recorded command line, taken apart."""
    try:
        return shlex.split(command_line)
    except ValueError:  # recorded without quotes, by an earlier version
        return command_line.split()

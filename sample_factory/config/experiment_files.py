"""The experiment directory and its cfg.json.

The session calls these in order: `resolve` (precedence), `check` (validation), `prepare_experiment_dir`,
`save_cfg`, `save_git_diff`: nothing old is touched before the new configuration is known to be good.
Invariants: cfg.json is whole or absent and holds no secrets; only the experiment's own directory is ever
moved or deleted.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sample_factory.config.config import Config, experiment_dir
from sample_factory.config.errors import ConfigError
from sample_factory.config.provenance import git_diff
from sample_factory.config.redaction import without_secrets

CFG_FILE = "cfg.json"
GIT_DIFF_FILE = "git.diff"
_SIGNS_OF_AN_EXPERIMENT = (CFG_FILE, "sf_log.txt", ".summary", "checkpoint_p0")


def cfg_path(cfg: Config) -> Path:
    """Where the configuration of an experiment is stored."""
    return experiment_dir(cfg) / CFG_FILE


def read_cfg_file(path: Path) -> dict[str, Any]:
    """The values stored in a cfg.json.

    Raises:
        ConfigError: when the file can't be read or does not hold settings.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} can't be read ({error.strerror}); check its permissions.") from error
    except ValueError as error:
        raise ConfigError(_damaged(path, str(error))) from error
    if not isinstance(values, dict):
        raise ConfigError(_damaged(path, "it holds no settings"))
    return values


def prepare_experiment_dir(cfg: Config) -> Path:
    """Make sure the directory exists, after moving or deleting an old one if `--restart_behavior` says so."""
    directory = experiment_dir(cfg)
    with _file_errors_name_the_flag(directory):
        if os.path.lexists(directory):
            if cfg.restart_behavior == "restart":
                directory.rename(_free_old_name(directory))
            elif cfg.restart_behavior == "overwrite":
                _delete_experiment(directory)
        directory.mkdir(parents=True, exist_ok=True)
    return directory


def save_cfg(cfg: Config) -> Path:
    """Store the configuration in the experiment directory, without secrets."""
    path = cfg_path(cfg)
    write_json(path, without_secrets(cfg.to_dict()))
    return path


def save_git_diff(cfg: Config) -> Path | None:
    """Store uncommitted changes of the working directory's checkout; nothing outside a checkout."""
    changes = git_diff(Path.cwd())
    if changes is None:
        return None
    path = experiment_dir(cfg) / GIT_DIFF_FILE
    _write_atomically(path, changes)
    return path


def write_json(path: Path, values: Any) -> None:
    """Write a JSON file so that whoever reads it, even after a crash, sees the old or the new one."""
    _write_atomically(path, json.dumps(values, indent=2, default=_plain) + "\n")


def _write_atomically(path: Path, text: str) -> None:
    with _file_errors_name_the_flag(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    """The rename itself survives a power cut only when the directory is on disk too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _plain(value: Any) -> Any:
    """Paths and numpy numbers, which callbacks of families leave in the configuration, as JSON has them."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise ConfigError(
        f"{value!r} can't be stored in {CFG_FILE}: settings are numbers, text, True/False or lists of them."
    )


def _free_old_name(directory: Path) -> Path:
    number = 1
    while os.path.lexists(directory.with_name(f"{directory.name}_old{number:04d}")):
        number += 1
    return directory.with_name(f"{directory.name}_old{number:04d}")


def _delete_experiment(directory: Path) -> None:
    """Only what looks like an experiment goes: a wrong --train_dir must not cost anybody their files."""
    is_experiment = any((directory / sign).exists() for sign in _SIGNS_OF_AN_EXPERIMENT)
    if not is_experiment and any(directory.iterdir()):
        raise ConfigError(
            f"{directory} is no experiment (it has no {CFG_FILE}), so --restart_behavior=overwrite leaves "
            "it alone; choose another --experiment or move the directory away."
        )
    shutil.rmtree(directory)


@contextmanager
def _file_errors_name_the_flag(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{path} can't be written ({error.strerror or error}); choose a --train_dir that can."
        ) from error


def _damaged(path: Path, reason: str) -> str:
    return (
        f"{path} is damaged ({reason}); restore it, or start afresh with --restart_behavior=restart, "
        "which keeps the old directory."
    )

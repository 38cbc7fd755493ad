"""Checkpoints of one policy on disk: saving, rotation, and loading what is intact.

A learner owns the store of its policy's directory and is its only writer; evaluation and population-based
training read from others' stores, also while those are being written.
Invariants: at any instant, also right after a kill, the newest good checkpoint loads; a good file is deleted
only when enough newer good ones exist; a damaged file is renamed and reported, never deleted or overwritten;
and files that exist but cannot be loaded are an error, never a fresh start.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sample_factory.model.checkpoint_format import CheckpointError, DamagedCheckpointError, decode, encode
from sample_factory.model.durable_files import remove_leftovers, set_aside, write_durably

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "CheckpointFile",
    "CheckpointStore",
    "DamagedCheckpointError",
    "load_checkpoint",
]

log = logging.getLogger("sample_factory")

MILESTONES_DIR = "milestones"
_ROLLING = re.compile(r"checkpoint_(\d+)_(\d+)\.pth")
_MILESTONE = re.compile(r"checkpoint_(\d+)_(\d+)\.pth\.milestone")
_BEST = re.compile(r"best_(\d+)_(\d+)_.+\.pth")
_DAMAGED = ".damaged"
_SUPERSEDED = ".superseded"


@dataclass(frozen=True, order=True)
class CheckpointFile:
    """A checkpoint by its name; nobody has looked inside yet."""

    policy_version: int
    env_steps: int
    path: Path


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint.

    Attributes:
        path: where it was loaded from.
        policy_version: SGD steps behind it.
        env_steps: frames behind it.
        state: everything in the file: what the learner saved, and the counters under v1's names; on the CPU.
        best_value: the metric's value, in a checkpoint that was saved as the best.
    """

    path: Path
    policy_version: int
    env_steps: int
    state: dict[str, Any]
    best_value: float | None = None


def load_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a file.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedCheckpointError: the file is not what was once written; it stays where it is.
        CheckpointError: the file cannot be read, or was written by another program.
    """
    try:
        contents = decode(path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CheckpointError(f"Checkpoint {path} can't be read: {error.strerror or error}.") from error
    except CheckpointError as error:
        raise type(error)(f"Checkpoint {path} can't be used: {error}.") from error
    return Checkpoint(
        path=path,
        policy_version=contents["train_step"],
        env_steps=contents["env_steps"],
        state=contents,
        best_value=contents.get("best_value"),
    )


class CheckpointStore:
    """The checkpoints in one directory.

    Args:
        directory: created by the first save.
        keep: how many of the newest checkpoints stay; milestones and the best one stay besides.
    """

    def __init__(self, directory: Path, keep: int = 3) -> None:
        if keep < 1:
            raise ValueError(f"--keep_checkpoints={keep} keeps nothing: use --keep_checkpoints=1 or more.")
        self.directory = Path(directory)
        self._keep = keep
        self._known_good: set[Path] = set()
        self._has_written = False

    def checkpoints(self) -> list[CheckpointFile]:
        """The rolling checkpoints, oldest first."""
        return _find(self.directory, _ROLLING)

    def milestones(self) -> list[CheckpointFile]:
        """The checkpoints that are kept for good, oldest first."""
        return _find(self.directory / MILESTONES_DIR, _MILESTONE)

    def best_checkpoints(self) -> list[CheckpointFile]:
        """The best checkpoint; after a death between saving it and deleting its predecessor, both."""
        return _find(self.directory, _BEST)

    def load_latest(self) -> Checkpoint | None:
        """The newest rolling checkpoint that is intact; None when there never was one.

        Raises:
            CheckpointError: there are checkpoints, but none can be loaded.
        """
        return self._load_newest(
            _ROLLING, "put back a copy of one, or begin anew with --restart_behavior=restart"
        )

    def load_best(self) -> Checkpoint | None:
        """The best checkpoint; None when there never was one. Raises like `load_latest`."""
        return self._load_newest(_BEST, "use --load_checkpoint_kind=latest")

    def load_milestone(self) -> Checkpoint | None:
        """The newest milestone that is intact; None when there never was one. Raises like `load_latest`."""
        return self._load_newest(_MILESTONE, "use --load_checkpoint_kind=latest")

    def load_version(self, policy_version: int) -> Checkpoint | None:
        """An intact checkpoint of exactly this version, of whatever kind; None when there never was one.

        Raises:
            CheckpointError: there are checkpoints of this version, but none can be loaded.
        """
        last_error: CheckpointError | None = None
        for kind in (_ROLLING, _MILESTONE, _BEST):
            try:
                found = self._load_newest(kind, "use another version", policy_version)
            except CheckpointError as error:
                last_error = error
            else:
                if found is not None:
                    return found
        if last_error is not None:
            raise last_error
        return None

    def save(self, state: dict[str, Any], *, policy_version: int, env_steps: int) -> Path:
        """Writes a rolling checkpoint, then deletes those that are too many.

        Args:
            state: tensors, numbers, strings, lists, tuples and dictionaries of them.
            policy_version: SGD steps so far.
            env_steps: frames so far.

        Raises:
            CheckpointError: nothing has changed on disk.
        """
        contents = {**state, "train_step": policy_version, "env_steps": env_steps}
        path = self.directory / f"checkpoint_{policy_version:09d}_{env_steps}.pth"
        self._write(path, encode(contents))
        self._known_good.add(path)
        self._set_aside_newer(policy_version)
        self._rotate()
        return path

    def save_milestone(self, path: Path) -> Path:
        """Copies a checkpoint to where it is kept for good. Raises like `save`."""
        milestone = self.directory / MILESTONES_DIR / f"{path.name}.milestone"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise CheckpointError(f"Checkpoint {path} can't be read: {error.strerror or error}.") from error
        self._write(milestone, data)
        return milestone

    def save_best(
        self, state: dict[str, Any], *, policy_version: int, env_steps: int, metric: str, value: float
    ) -> Path:
        """Writes the best checkpoint so far in place of the one before. Raises like `save`."""
        contents = {**state, "train_step": policy_version, "env_steps": env_steps, "best_value": float(value)}
        safe_metric = metric.replace("/", "_")
        path = self.directory / f"best_{policy_version:09d}_{env_steps}_{safe_metric}_{value:.3f}.pth"
        self._write(path, encode(contents))
        for file in self.best_checkpoints():
            if file.path != path:
                _delete(file.path)
        return path

    def _load_newest(
        self, kind: re.Pattern[str], advice: str, policy_version: int | None = None
    ) -> Checkpoint | None:
        directory = self.directory / MILESTONES_DIR if kind is _MILESTONE else self.directory
        tried: set[Path] = set()
        # Looks again after every failure: meanwhile a learner may have saved one and deleted another.
        while files := [f for f in _find(directory, kind, policy_version) if f.path not in tried]:
            path = files[-1].path
            tried.add(path)
            try:
                return load_checkpoint(path)
            except FileNotFoundError:
                continue
            except DamagedCheckpointError as error:
                _report_damage(path, error)
        damaged = [path for path in tried if path.exists()]
        damaged += [file.path for file in _find(directory, kind, policy_version, damaged=True)]
        if damaged:
            names = ", ".join(sorted(path.name for path in damaged))
            raise CheckpointError(f"All checkpoints in {directory} are damaged ({names}): {advice}.")
        return None

    def _write(self, path: Path, data: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not self._has_written:
                self._remove_leftovers()
            write_durably(path, data)
        except OSError as error:
            raise CheckpointError(
                f"Checkpoint {path} can't be written ({error.strerror or error}); earlier ones are "
                "untouched, make room there or choose another --train_dir."
            ) from error
        self._has_written = True

    def _remove_leftovers(self) -> None:
        for directory in (self.directory, self.directory / MILESTONES_DIR):
            for path in remove_leftovers(directory):
                log.info("Removed %s, left by a session that died while saving", path)

    def _set_aside_newer(self, policy_version: int) -> None:
        """Versions only grow, so higher ones are of a past that training was turned back from.

        They would pass for the latest at the next start, and rotation would delete new ones in their favour.
        """
        for file in self.checkpoints():
            if file.policy_version > policy_version:
                renamed = _rename(file.path, _SUPERSEDED)
                log.warning("Training went on from before %s: renamed it to %s", file.path.name, renamed.name)

    def _rotate(self) -> None:
        """Deletes all but the newest; a file from an earlier session counts only when it proves intact."""
        good = [file.path for file in self.checkpoints() if self._is_good(file.path)]
        for path in good[: -self._keep]:
            _delete(path)
            self._known_good.discard(path)

    def _is_good(self, path: Path) -> bool:
        if path in self._known_good:
            return True
        try:
            load_checkpoint(path)
        except DamagedCheckpointError as error:
            _report_damage(path, error)
            return False
        except (CheckpointError, FileNotFoundError) as error:
            log.warning("Left alone while deleting old checkpoints: %s", error)
            return False
        self._known_good.add(path)
        return True


def _find(
    directory: Path, kind: re.Pattern[str], policy_version: int | None = None, damaged: bool = False
) -> list[CheckpointFile]:
    """Files of one kind, oldest first: those in use, or those that were set aside as damaged."""
    if not directory.is_dir():
        return []
    files = []
    for path in directory.iterdir():
        name, marker, _ = path.name.partition(_DAMAGED)
        match = kind.fullmatch(name)
        if match and damaged == bool(marker) and policy_version in (None, int(match[1])):
            files.append(CheckpointFile(int(match[1]), int(match[2]), path))
    return sorted(files)


def _report_damage(path: Path, error: CheckpointError) -> None:
    renamed = _rename(path, _DAMAGED)
    log.error("DAMAGED CHECKPOINT: %s It is now called %s; trying the one before.", error, renamed.name)


def _rename(path: Path, suffix: str) -> Path:
    """The new path, or the old one where this directory does not let us."""
    try:
        return set_aside(path, suffix)
    except OSError as error:
        log.warning("%s can't be renamed: %s", path, error.strerror or error)
        return path


def _delete(path: Path) -> None:
    """A file too many is no reason to stop training."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("Old checkpoint %s can't be deleted: %s", path, error.strerror or error)

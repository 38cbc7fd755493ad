"""Where a policy comes from: which directory, and which of the checkpoints in it.

`command_line` and `load_policy` ask `locate` for the directory with the policy's cfg.json; `load_player` and
`export` ask `find_checkpoint` for what to load. A published policy is laid out like an experiment.

Invariant: a choice that matches nothing is an error that lists what there is; nothing else is taken instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import sample_factory
from sample_factory.config.config import experiment_dir
from sample_factory.config.experiment_files import CFG_FILE
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.model.checkpoints import Checkpoint, CheckpointFile, CheckpointStore, load_checkpoint

if TYPE_CHECKING:
    from sample_factory.config.config import Config

TRAINED_POLICIES = "trained_policies"
ALL = "all"
_LEVELS_ABOVE = 3  # experiment/checkpoint_p0/milestones/FILE


@dataclass(frozen=True)
class Location:
    """A directory with a policy's cfg.json, and the checkpoint file if one was named."""

    directory: Path
    file: Path | None = None


def locate(path: str | Path) -> Location:
    """Finds a policy by the path of its directory or checkpoint, or by its name in `trained_policies/`.

    Raises:
        EvaluationError: there is nothing at the path, or no cfg.json with it.
    """
    found = next((place for place in _places(Path(path)) if place.exists()), None)
    if found is None:
        raise EvaluationError(
            f"There is no policy at {path}: name an experiment directory, a checkpoint file or one of "
            f"{TRAINED_POLICIES}/."
        )
    if found.is_dir():
        if (found / CFG_FILE).exists():
            return Location(found.resolve())
        raise EvaluationError(f"{found} has no {CFG_FILE}, so it is no experiment; name one that has.")
    file = found.resolve()
    for directory in list(file.parents)[:_LEVELS_ABOVE]:
        if (directory / CFG_FILE).exists():
            return Location(directory, file)
    raise EvaluationError(
        f"{found} needs the {CFG_FILE} of its experiment beside it or in a directory above; copy it there."
    )


def _places(path: Path) -> Sequence[Path]:
    """Where a path may be: as it is, or published here or in the repository."""
    path = path.expanduser()
    repository = Path(sample_factory.__file__).resolve().parents[1]
    return (path, Path(TRAINED_POLICIES) / path, repository / path, repository / TRAINED_POLICIES / path)


def find_checkpoint(cfg: Config) -> Checkpoint:
    """The checkpoint that `--model_path`, `--policy_index`, `--iter_num` and `--load_checkpoint_kind` mean.

    Raises:
        EvaluationError: there is no such checkpoint.
        CheckpointError: there is, but it can't be loaded.
    """
    file = _named_file(cfg)
    if file is not None:
        return _load_file(file)
    store = checkpoint_store(cfg)
    choice = str(cfg.get("iter_num") or cfg.get("load_checkpoint_kind", "latest"))
    by_kind: dict[str, Callable[[], Checkpoint | None]] = {
        "latest": store.load_latest,
        "best": store.load_best,
        "milestone": store.load_milestone,
    }
    found = by_kind[choice]() if choice in by_kind else _load_numbered(store, choice)
    if found is None:
        raise _nothing(store, choice)
    return found


def all_checkpoints(cfg: Config) -> list[Path]:
    """Every checkpoint `--iter_num=all` means: one file for each policy version, oldest first."""
    store = checkpoint_store(cfg)
    by_version = {file.policy_version: file for file in _everything(store)}
    if not by_version:
        raise _nothing(store, ALL)
    return [file.path for _, file in sorted(by_version.items())]


def checkpoint_store(cfg: Config) -> CheckpointStore:
    """The checkpoints of `--policy_index`.

    Raises:
        EvaluationError: this policy was never saved.
    """
    policy_index = cfg.get("policy_index", 0)
    directory = experiment_dir(cfg) / f"checkpoint_p{policy_index}"
    if directory.is_dir():
        return CheckpointStore(directory)
    trained = sorted(
        path.name.removeprefix("checkpoint_p") for path in directory.parent.glob("checkpoint_p*")
    )
    remedy = f"use --policy_index={trained[0]}" if trained else "train the experiment first"
    raise EvaluationError(f"Policy {policy_index} has no checkpoints in {directory.parent}; {remedy}.")


def _named_file(cfg: Config) -> Path | None:
    path = cfg.get("model_path")
    return None if not path or str(path).startswith("wandb:") else locate(path).file


def _load_file(file: Path) -> Checkpoint:
    try:
        return load_checkpoint(file)
    except FileNotFoundError:
        raise EvaluationError(
            f"{file} is gone; training deletes old checkpoints, use --iter_num=latest."
        ) from None


def _load_numbered(store: CheckpointStore, choice: str) -> Checkpoint | None:
    """A checkpoint by `SGD step`, `env:FRAMES` or `milestone:N`."""
    kind, _, text = choice.rpartition(":")
    try:
        number = int(text)
    except ValueError:
        raise EvaluationError(
            f"--iter_num={choice} must be latest, best, milestone, milestone:N, env:FRAMES or an SGD step, "
            "for example --iter_num=latest."
        ) from None
    if kind == "":
        return store.load_version(number)
    if kind == "milestone":
        milestones = store.milestones()
        exists = -len(milestones) <= number < len(milestones)
        return _load_file(milestones[number].path) if exists else None
    if kind == "env":
        files = [file for file in _everything(store) if file.env_steps == number]
        return _load_file(files[0].path) if files else None
    raise EvaluationError(f"--iter_num={choice} is unknown: use env:{number} or milestone:{number}.")


def _everything(store: CheckpointStore) -> list[CheckpointFile]:
    return [*store.checkpoints(), *store.milestones(), *store.best_checkpoints()]


def _nothing(store: CheckpointStore, choice: str) -> EvaluationError:
    names = ", ".join(file.path.name for file in _everything(store))
    if not names:
        return EvaluationError(f"There is no {choice} checkpoint in {store.directory}; train for longer.")
    remedy = "--iter_num=latest" if choice != "latest" else "--iter_num=best"
    return EvaluationError(
        f"There is no {choice} checkpoint in {store.directory} (found: {names}); use {remedy}."
    )

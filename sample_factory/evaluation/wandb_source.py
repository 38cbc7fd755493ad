"""Policies that were uploaded to Weights & Biases: cfg.json and one checkpoint, downloaded as an experiment.

`command_line` calls `download` for `--wandb_run_path` and for paths that start with `wandb:`. The directory
it leaves looks like an experiment, so everything else works as on local ones.

Invariant: a file under its final name is complete, and what is there already is not downloaded again unless
asked for.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sample_factory.config.experiment_files import CFG_FILE, write_json
from sample_factory.evaluation.errors import EvaluationError

PREFIX = "wandb:"
TIMEOUT_SEC = 30
MISSING_WANDB = "--wandb_run_path needs the package wandb: pip install 'sample-factory-rebuilt[wandb]'"

_CHECKPOINT = re.compile(r"(best|checkpoint)_(\d+)_(\d+)(?!\d).*\.pth(\.milestone)?")


@dataclass(frozen=True)
class RunPath:
    """`entity/project/run`, and the name of a checkpoint if one was given."""

    entity: str
    project: str
    run: str
    file: str | None = None

    @classmethod
    def parse(cls, text: str) -> RunPath:
        """Reads `[wandb:]entity/project/run[:FILE]`.

        Raises:
            EvaluationError: it does not have three parts.
        """
        path, _, file = text.removeprefix(PREFIX).partition(":")
        parts = path.strip("/").split("/")
        if len(parts) == 4 and parts[2] == "runs":  # as in the address of the page
            del parts[2]
        # The run's id becomes the name of a directory.
        if len(parts) != 3 or not all(parts) or ".." in parts:
            raise EvaluationError(f"--wandb_run_path={text} must be entity/project/run.")
        entity, project, run = parts
        return cls(entity, project, run, file or None)

    def __str__(self) -> str:
        return f"{self.entity}/{self.project}/{self.run}"


def download(path: RunPath, train_dir: Path, *, choice: str, replace: bool, api: Any = None) -> Path:
    """Brings a run's policy to this machine.

    Args:
        path: which run.
        train_dir: the files go to `<train_dir>/wandb/<run>`.
        choice: `latest`, `best`, `env:FRAMES` or an SGD step.
        replace: download again what is there.
        api: wandb's `Api`; made from the package when None.

    Returns:
        The checkpoint's file, in a directory laid out like an experiment.

    Raises:
        EvaluationError: the run can't be reached, or stored no such checkpoint.
    """
    directory = train_dir / "wandb" / path.run
    run = _find_run(path, _make_api() if api is None else api)
    files = {file.name: file for file in run.files()}
    name = path.file or _choose(list(files), choice, path)
    if name not in files:
        raise EvaluationError(f"Run {path} stored no {name}; it has {_listed(list(files))}.")
    _write_cfg(run, files, directory, replace)
    target = directory / _checkpoint_dir(name) / PurePosixPath(name).name
    if replace or not target.exists():
        _fetch(files[name], target)
    return target


def _make_api() -> Any:
    try:
        import wandb
    except ModuleNotFoundError as error:
        raise EvaluationError(MISSING_WANDB) from error
    try:
        return wandb.Api(timeout=TIMEOUT_SEC)
    except Exception as error:  # whatever a service on the web raises, from UsageError to OSError
        raise _unreachable(error) from error


def _find_run(path: RunPath, api: Any) -> Any:
    try:
        run = api.run(str(path))
    except Exception as error:  # wandb wraps network errors in a dozen of its own
        raise _unreachable(error) from error
    return run


def _unreachable(error: Exception) -> EvaluationError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return EvaluationError(
        f"Weights & Biases can't be reached or has no such run ({reason}); "
        "check the network, `wandb login` and --wandb_run_path, or use --model_path with a local copy."
    )


def _choose(names: Sequence[str], choice: str, path: RunPath) -> str:
    """The name of the checkpoint meant; numbers are compared as numbers, so 62 is not 620."""
    found = [(match, name) for name in names if (match := _CHECKPOINT.fullmatch(PurePosixPath(name).name))]
    if not found:
        raise EvaluationError(
            f"Run {path} stored no checkpoints; upload some to it, or use --model_path with a local copy."
        )
    found.sort(key=lambda entry: int(entry[0][2]))
    if choice in ("latest", "best"):
        wanted = "best" if choice == "best" else "checkpoint"
        chosen = [name for match, name in found if match[1] == wanted]
    else:
        number, group = (choice.removeprefix("env:"), 3 if choice.startswith("env:") else 2)
        chosen = [name for match, name in found if str(int(match[group])) == number]
    if not chosen:
        raise EvaluationError(
            f"Run {path} stored no {choice} checkpoint; it has {_listed([name for _, name in found])}."
        )
    return chosen[-1]


def _write_cfg(run: Any, files: dict[str, Any], directory: Path, replace: bool) -> None:
    target = directory / CFG_FILE
    if target.exists() and not replace:
        return
    if CFG_FILE in files:
        _fetch(files[CFG_FILE], target)
    elif run.config.get("env"):
        write_json(target, dict(run.config))
    else:
        raise EvaluationError(f"Run {'/'.join(run.path)} stored neither {CFG_FILE} nor its settings.")


def _checkpoint_dir(name: str) -> str:
    parent = PurePosixPath(name).parent.name
    return parent if parent.startswith("checkpoint_p") else "checkpoint_p0"


def _fetch(file: Any, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".download_") as folder:
        try:
            file.download(root=folder, replace=True)
        except Exception as error:  # as above
            raise _unreachable(error) from error
        shutil.move(Path(folder) / file.name, target)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(sorted(names)) or "no files"

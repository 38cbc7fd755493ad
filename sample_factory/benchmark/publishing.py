"""The records of runs for others to read: small, whole, and without traces of the machine they were made on.

`export --format=records` writes them; every other command reads them like the runs themselves.

Invariant: scores, curves, settings, packages and commits are those of the runs; names of machines and
directories are left out.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sample_factory.benchmark.run_record import CONFIG_FILE, RUN_FILE, strict_json
from sample_factory.benchmark.runs import Run
from sample_factory.config.experiment_files import write_json
from sample_factory.config.places import is_path
from sample_factory.monitoring.metrics import METRICS_FILE_NAME

_COPIED = (METRICS_FILE_NAME, "episodes.csv", "eval/final/episodes.csv", "eval/final/eval.json")
# What only says where things were, by its name in run.json and config.json.
_PLACES = frozenset(
    {"hostname", "base_dir", "train_dir", "pid", "command_line", "script", "url", "git_repo_name"}
)


def write_records(runs: Sequence[Run], output: Path) -> list[Path]:
    """Copies the records of runs to `<output>/<algo>/<env>/seed_<n>`; the directories they are in.

    Runs without a run.json are left out.
    """
    written = []
    for run in runs:
        if not run.record:
            continue
        name = f"seed_{run.seed}" if run.seed is not None else run.path.name
        directory = output / _file_name(run.algo) / _file_name(run.env) / name
        write_json(directory / RUN_FILE, strict_json(without_places(run.record)))
        write_json(directory / CONFIG_FILE, strict_json(without_places(run.config)))
        for file in _COPIED:
            if (run.path / file).is_file():
                (directory / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(run.path / file, directory / file)
        written.append(directory)
    return written


def without_places(content: Any) -> Any:
    """A record without the entries, and the flags of command lines, that say where things were."""
    if isinstance(content, dict):
        return {
            key: without_places(value)
            for key, value in content.items()
            if key not in _PLACES and not is_path(value)
        }
    if isinstance(content, list):
        return [without_places(entry) for entry in content if not _is_place(entry)]
    return content


def _is_place(entry: Any) -> bool:
    if not isinstance(entry, str):
        return False
    name, _, value = entry.partition("=")
    return is_path(entry) or is_path(value) or name == "--train_dir"


def _file_name(text: str) -> str:
    return text.replace("/", "-")

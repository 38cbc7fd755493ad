"""Runs as imitation's scripts leave them: `sacred/<script>/<number>`, and links by algorithm and env.

`export --format=sacred` and `run --layout=sacred` write it, for tools that expect that tree. Links are
relative, so the tree can be copied to another place.
"""

from __future__ import annotations

import itertools
import os
import shutil
import uuid
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from sample_factory.benchmark.readers import dig
from sample_factory.benchmark.run_record import CONFIG_FILE, OUTPUT_FILE, RUN_FILE, read_json_object
from sample_factory.benchmark.runs import Run
from sample_factory.benchmark.status import output_file
from sample_factory.config.experiment_files import CFG_FILE
from sample_factory.monitoring.metrics import METRICS_FILE_NAME

_SACRED = "sacred"


def write_sacred_layout(runs: Sequence[Run], output: Path) -> list[Path]:
    """Copies the records of some runs into the tree; the directories they are in.

    Runs without a run.json are left out; one that is in the tree already is brought up to date.
    """
    known = _known_runs(output / _SACRED)
    written = []
    for run in runs:
        if not run.record:
            continue
        directory = known.get(str(run.record.get("id")))
        if directory is None:
            directory = _next_directory(output / _SACRED / _script_name(run))
            _link(run, directory, output)
        _copy_record(run.path, directory)
        written.append(directory)
    return written


def _known_runs(root: Path) -> dict[str, Path]:
    """Directories by the id of the run that an earlier export has put there."""
    records = ((path.parent, read_json_object(path)) for path in sorted(root.glob(f"*/*/{RUN_FILE}")))
    return {str(record["id"]): directory for directory, record in records if record and "id" in record}


def _copy_record(source: Path, directory: Path) -> None:
    shutil.copyfile(source / RUN_FILE, directory / RUN_FILE)
    config = source / CONFIG_FILE
    shutil.copyfile(config if config.exists() else source / CFG_FILE, directory / CONFIG_FILE)
    printed = output_file(source)
    if printed is not None:
        shutil.copyfile(printed, directory / OUTPUT_FILE)
    if (source / METRICS_FILE_NAME).exists():
        shutil.copyfile(source / METRICS_FILE_NAME, directory / METRICS_FILE_NAME)


def _link(run: Run, directory: Path, output: Path) -> None:
    start = datetime.fromisoformat(str(run.record.get("start_time")))
    group = output / run.algo.replace("/", "-") / run.env.replace("/", "-")
    place = group / f"{start:%Y%m%d_%H%M%S}_{uuid.uuid4().hex[:6]}"
    place.mkdir(parents=True)
    (place / _SACRED).symlink_to(os.path.relpath(directory, place), target_is_directory=True)


def _next_directory(parent: Path) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    highest = max((int(child.name) for child in parent.iterdir() if child.name.isdigit()), default=0)
    for number in itertools.count(highest + 1):
        directory = parent / str(number)
        try:
            directory.mkdir()
        except FileExistsError:
            continue  # somebody else is exporting into the same tree
        return directory
    raise AssertionError("counting never ends")


def _script_name(run: Run) -> str:
    mainfile = str(dig(run.record, "experiment.mainfile") or "runs")
    return Path(mainfile).stem if mainfile.endswith(".py") else mainfile.rpartition(".")[2]

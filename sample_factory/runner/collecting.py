"""`--collect`: the results of a run's jobs in one table, wherever they ran.

Works from the manifest and the run records in the experiments' directories, with or without a launcher alive.
Invariant: every job has a row; what is not known of it is empty.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from sample_factory.runner.control import current_records
from sample_factory.runner.errors import ExitCode
from sample_factory.runner.manifest import JobRecord
from sample_factory.runner.run_files import RunFiles

_RECORD = "run.json"  # written by trainings and wrapped scripts
_COLUMNS = {
    "score": ("result", "score"),
    "score_source": ("result", "score_source"),
    "env_steps": ("progress", "env_steps"),
    "train_seconds": ("progress", "train_seconds"),
    "fps": ("progress", "fps_mean"),
}


def collect_run(files: RunFiles, args: argparse.Namespace, stream: TextIO) -> ExitCode:
    """Write results.csv and print it; the exit code is 3 when no job has a score."""
    records = current_records(files, args)
    facts = [_facts(record) for record in records]
    text = _table(records, facts)
    files.collected.write_text(text, encoding="utf-8")
    stream.write(text)
    has_scores = any(known["score"] is not None for known in facts)
    return ExitCode.OK if has_scores else ExitCode.NOTHING_FOUND


def _facts(record: JobRecord) -> dict[str, Any]:
    """What the job's program has recorded; other programs than ours record nothing."""
    try:
        content = json.loads((Path(record.directory) / _RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = {}
    sections = content if isinstance(content, dict) else {}
    return {name: (sections.get(section) or {}).get(key) for name, (section, key) in _COLUMNS.items()}


def _table(records: Sequence[JobRecord], facts: Sequence[Mapping[str, Any]]) -> str:
    params = list(dict.fromkeys(name for record in records for name in record.params))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["job", "state", *params, *_COLUMNS, "error", "directory"])
    for record, known in zip(records, facts, strict=True):
        values = [_blank(known[name]) for name in _COLUMNS]
        shown = [_blank(record.params.get(name)) for name in params]
        writer.writerow([record.id, record.state, *shown, *values, record.error, record.directory])
    return text.getvalue()


def _blank(value: Any) -> Any:
    return "" if value is None else value

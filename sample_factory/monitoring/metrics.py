"""`metrics.jsonl`: every scalar a session writes, one JSON object per line, readable without TensorBoard.

`summaries` writes it; learning curves, benchmarks and people's notebooks read it with `read_metrics`.
A line is `{"time": unix seconds, "env_steps": n, "policy": id, "<tag>": value, ...}`; NaN becomes null.

Invariant: a line torn by a crash or a full disk costs that line only.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

METRICS_FILE_NAME = "metrics.jsonl"


def append_metrics(path: Path, record: Mapping[str, Any]) -> None:
    """Appends one line, starting afresh after a torn one.

    Raises:
        OSError: the disk refused.
    """
    line = json.dumps({key: _finite(value) for key, value in record.items()}, separators=(",", ":"))
    # Opened per line: a few per minute, and a file moved or deleted under a running session comes back.
    with path.open("ab+") as file:
        if file.seek(0, os.SEEK_END) > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                line = "\n" + line
        file.write(line.encode() + b"\n")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All complete lines of a metrics file in order; a missing file has none."""
    if not path.exists():
        return []
    records = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(record, dict):
                records.append(record)
    return records


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value

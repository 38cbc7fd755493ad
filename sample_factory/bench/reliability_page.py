"""The measured part of docs/reliability.md: tables made from what `sf bench faults` has written as JSON.

Invariant: only the text between the two markers is replaced; what people wrote around it stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BEGIN = "<!-- measured: written by `sf bench faults`, do not edit by hand -->"
END = "<!-- end of the measured part -->"

RUN_COLUMNS = ("seconds", "frames", "fps", "fps_between_kills", "frames_per_cpu_second")
RUN_HEADER = ("run", "s", "frames", "frames/s", "between kills", "frames/CPU s", "score", "exit code")


@dataclass(frozen=True)
class Check:
    """One promise, what was seen, and whether that keeps it."""

    what: str
    seen: str
    passed: bool


def write_page(path: Path, data: dict[str, Any]) -> None:
    """Puts the tables into the page; makes the page if there is none."""
    text = path.read_text(encoding="utf-8") if path.exists() else f"# Reliability\n\n{BEGIN}\n{END}\n"
    if BEGIN not in text or END not in text:
        text = f"{text.rstrip()}\n\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text(f"{before}{BEGIN}\n\n{render(data)}\n{END}{after}", encoding="utf-8")


def render(data: dict[str, Any]) -> str:
    """All tables as markdown."""
    parts = []
    if "kills" in data:
        parts.append(_kills(data["kills"]))
    if "soak" in data:
        parts.append(_soak(data["soak"]))
    return "\n".join(parts)


def _kills(part: dict[str, Any]) -> str:
    runs = [
        (
            r["name"],
            *(_number(r[key]) for key in RUN_COLUMNS),
            f"{r['score']:.1f}",
            r["exit_code"],
        )
        for r in part["runs"]
    ]
    roles = [
        (r["role"], r["kills"], r["recovered"], _seconds(r["median_sec"]), _seconds(r["longest_sec"]))
        for r in part["roles"]
    ]
    return "\n".join(
        [
            "### Random kills",
            "",
            _origin(part),
            "",
            _checks(part["checks"]),
            "",
            _table(RUN_HEADER, runs),
            "",
            _table(("killed", "times", "recovered", "median s", "longest s"), roles),
            "",
        ]
    )


def _soak(part: dict[str, Any]) -> str:
    rows = [
        (
            g["role"],
            g["processes"],
            f"{g['first_mb']:.1f}",
            f"{g['last_mb']:.1f}",
            f"{g['slope_mb_per_hour']:+.1f} ± {g['slope_interval']:.1f}",
            f"{g['descriptors_first']} → {g['descriptors_last']}",
        )
        for g in part["growth"]
    ]
    return "\n".join(
        [
            f"### Soak of {part['minutes']:.0f} minutes, {_number(part['frames'])} frames",
            "",
            _origin(part),
            "",
            _checks(part["checks"]),
            "",
            _table(("process", "count", "MB at first", "MB at last", "MB/h", "descriptors"), rows),
            "",
        ]
    )


def _origin(part: dict[str, Any]) -> str:
    commit = f", commit {part['commit']}" if part["commit"] else ""
    return f"`{part['command']}`, {part['date']}{commit}, {part['machine']}."


def _checks(checks: Sequence[dict[str, Any]]) -> str:
    return _table(
        ("promise", "seen", "kept"),
        [(c["what"], c["seen"], "yes" if c["passed"] else "**no**") for c in checks],
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"

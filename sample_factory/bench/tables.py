"""docs/performance.md from the JSON files of `sf bench speed`: text stays, tables are replaced.

The page marks where tables go: `<!-- speed:training -->` ... `<!-- /speed:training -->`. Markers `training`,
`sampling`, `peers` and `scaling:<sweep>` exist; `benchmarks/side_by_side.py` writes what `peers` shows.
Invariant: the page says nothing that no file says; a marker without results says so.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sample_factory.bench.measurement import slope
from sample_factory.bench.sweeps import SWEEPS

PAGE = Path("docs/performance.md")
NOTHING = "Not measured yet.\n"
_MARK = re.compile(r"(<!-- speed:(?P<name>[\w:]+) -->\n).*?(<!-- /speed:(?P=name) -->)", re.DOTALL)

Result = Mapping[str, Any]

_BOUND = "bound_"
_PEERS = {
    "ours": "this project",
    "sf2": "Sample Factory 2.1.1",
    "sb3": "Stable-Baselines3 2.9.2",
    "puffer": "PufferLib 3.0.0",
    "rllib": "RLlib 2.60 APPO",
    "envpool": "EnvPool 1.2.5 with a plain PPO",
}


def write_page(page: Path, results: Path) -> Path:
    """Replaces the tables of the page, in one step; returns its path."""
    rendered = render(page.read_text(encoding="utf-8"), read_results(results))
    descriptor, temporary = tempfile.mkstemp(dir=page.parent, prefix=".temp_")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(rendered)
    os.chmod(temporary, 0o644)
    os.replace(temporary, page)
    return page


def read_results(directory: Path) -> list[Result]:
    """Every result in a directory, in the order of the file names."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(directory.glob("*.json"))]


def render(text: str, results: Sequence[Result]) -> str:
    """The page with its tables made from `results`."""

    def fill(mark: re.Match[str]) -> str:
        return f"{mark.group(1)}{_section(mark.group('name'), results)}{mark.group(3)}"

    return _MARK.sub(fill, text)


def _section(name: str, results: Sequence[Result]) -> str:
    kind, _, sweep = name.partition(":")
    found = [r for r in results if r["kind"] == kind and (not sweep or r["sweep"] == sweep)]
    if not found:
        return NOTHING
    if kind in _ONE_TABLE_EACH:
        return "\n".join(map(_ONE_TABLE_EACH[kind], found))
    table = {"training": _training, "sampling": _sampling}[kind]
    return f"{_origin(found)}\n\n{table(found)}"


def _training(results: Sequence[Result]) -> str:
    columns: dict[str, Callable[[Result], str]] = {
        "workload": lambda r: str(r["workload"]),
        "environments": lambda r: str(r["num_envs"]),
        "frames/s, median": lambda r: _median(r),
        "lowest to highest": _range,
        "core-us a step": lambda r: f"{r['core_us_per_step']:.0f}",
        "environment / inference / learner / main / rest, % of CPU": _split,
        "peak memory, MB": lambda r: f"{r['peak_pss_mb']:.0f}",
        "first SGD step, s": lambda r: f"{r['start_sec']:.1f}",
    }
    return _table(columns, results) + _commands(results)


def _sampling(results: Sequence[Result]) -> str:
    columns: dict[str, Callable[[Result], str]] = {
        "workload": lambda r: str(r["workload"]),
        "bare loop, frames/s": lambda r: _median(r["bare_loop"]),
        "dummy sampler, frames/s": lambda r: _median(r["dummy_sampler"]),
        "ratio, median": lambda r: f"{r['ratio']['median']:.2f}",
        "lowest to highest": lambda r: f"{r['ratio']['min']:.2f} to {r['ratio']['max']:.2f}",
        "ratio by CPU time": lambda r: f"{r['cpu_ratio']:.2f}",
    }
    return _table(columns, results)


def _scaling(result: Result) -> str:
    columns: dict[str, Callable[[Result], str]] = {
        SWEEPS[result["sweep"]].quantity: lambda r: str(r["value"]),
        "frames/s, median": lambda r: _median(r) if "error" not in r else "failed",
        "lowest to highest": lambda r: _range(r) if "error" not in r else "",
        "core-us a step": lambda r: f"{r['core_us_per_step']:.0f}" if "error" not in r else "",
        "processes": lambda r: str(r["num_processes"]) if "error" not in r else "",
        "peak memory, MB": lambda r: f"{r['peak_pss_mb']:.0f}" if "error" not in r else "",
    }
    head = f"**{result['workload']}.** {_origin([result])}\n\n"
    if result.get("in_turn"):  # paired windows: their ratio stands though the machine's speed changes
        columns["against the first, median of pairs"] = lambda r: f"{_paired(r, result['rows'][0]):.2f}"
    return head + _table(columns, result["rows"]) + _memory_per_env(result)


def _peers(result: Result) -> str:
    """The systems, this project first, and how much of the bound it reaches."""
    measured = [row for row in result["rows"] if "error" not in row]
    systems = [row for row in measured if not row["system"].startswith(_BOUND)]
    ours = systems[0]
    columns: dict[str, Callable[[Result], str]] = {
        "system": lambda r: str(_PEERS.get(r["system"], r["system"])),
        "environments": lambda r: f"2 x {r['envs_per_worker']}",
        "frames/s, median": _median,
        "this project is faster by": lambda r: "" if r is ours else f"{_paired(ours, r):.2f}",
        "pairs of windows": lambda r: "" if r is ours else _pair_range(ours, r),
        "core-us a step": lambda r: f"{r['core_us_per_step']:.0f}",
        "memory, MB": lambda r: f"{r['peak_pss_mb']:.0f}",
        "first SGD step, s": lambda r: f"{r['first_train_sec']:.0f}",
    }
    failed = "".join(
        f"\n{_PEERS[row['system']]} with 2 x {row['envs_per_worker']} environments {row['error']}\n"
        for row in result["rows"]
        if "error" in row
    )
    engine = ", EnvPool's simulators" if "--engine envpool" in ours["flags"] else ""
    network = "" if result["variant"] == "ff" else f", {result['variant'].upper()}"
    head = f"**{result['workload']}{network}{engine}.** {_origin([result])}\n\n"
    return head + _table(columns, systems) + failed + _bound(result, measured)


def _bound(result: Result, rows: Sequence[Result]) -> str:
    if not result["bound"]:
        return ""
    share = result["bound"]["share"]
    costs = {row["system"]: f"{row['core_us_per_step']:.1f}" for row in rows}
    parts = ", ".join(f"{name.removeprefix(_BOUND)} {us}" for name, us in costs.items() if _BOUND in name)
    return (
        f"\nThe parts of a step alone, in core-us: {parts}. Of the speed they allow on two cores, "
        f"this project reaches {share['median']:.2f} ({share['min']:.2f} to {share['max']:.2f}).\n"
    )


def _pair_range(ours: Result, row: Result) -> str:
    ratios = _pairs(ours, row)
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def _memory_per_env(result: Result) -> str:
    rows = [row for row in result["rows"] if "error" not in row]
    if result["sweep"] != "envs" or len(rows) < 2:
        return ""
    megabytes = slope([row["num_envs"] for row in rows], [row["peak_pss_mb"] for row in rows])
    return f"\nMemory grows by {megabytes:.2f} MB for each further environment (least squares).\n"


def _table(columns: Mapping[str, Callable[[Result], str]], rows: Sequence[Result]) -> str:
    lines = [list(columns), ["---"] * len(columns)]
    lines += [[cell(row) for cell in columns.values()] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _origin(results: Sequence[Result]) -> str:
    """Machine and commit of the measurements, and a warning where others used the machine."""
    machines = {f"{r['machine']['cpu']}, {r['machine']['usable_cores']} cores" for r in results}
    commits = {str(r["commit"])[:10] + (" with changes" if r["uncommitted_changes"] else "") for r in results}
    days = {r["time"][:10] for r in results}
    text = f"{_list(machines)}; commit {_list(commits)}; {_list(days)}."
    disturbed = sorted({r["workload"] for r in results if not _is_undisturbed(r)})
    if disturbed:
        text += f" Other programs used the machine during {', '.join(disturbed)}: read these with care."
    return text


def _is_undisturbed(result: Result) -> bool:
    parts = result.get("rows", [result])
    if result["kind"] == "sampling":
        parts = [result["bare_loop"], result["dummy_sampler"]]
    return all(part.get("undisturbed", True) for part in parts)


def _commands(results: Sequence[Result]) -> str:
    lines = "".join(f"{r['workload']}: {r['command']}\n" for r in results)
    return f"\n<details><summary>Commands</summary>\n\n```\n{lines}```\n\n</details>\n"


_ONE_TABLE_EACH: dict[str, Callable[[Result], str]] = {"scaling": _scaling, "peers": _peers}


def _list(items: set[str]) -> str:
    return ", ".join(sorted(items))


def _median(row: Result) -> str:
    return f"{row['frames_per_sec']['median']:.0f}"


def _pairs(row: Result, other: Result) -> list[float]:
    """Ratios of windows that followed each other."""
    windows = zip(row["frames_per_sec"]["windows"], other["frames_per_sec"]["windows"], strict=True)
    return [ours / others for ours, others in windows]


def _paired(row: Result, other: Result) -> float:
    return statistics.median(_pairs(row, other))


def _range(row: Result) -> str:
    return f"{row['frames_per_sec']['min']:.0f} to {row['frames_per_sec']['max']:.0f}"


def _split(row: Result) -> str:
    if "cpu_percent" not in row:  # the session ended without its record
        return "unknown"
    parts = ("environment", "inference", "learner", "main", "rollout_bookkeeping")
    return " / ".join(f"{row['cpu_percent'][part]:.0f}" for part in parts)

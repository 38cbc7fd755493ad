"""A summary as CSV, markdown, LaTeX or JSON; the HTML form is `html_report`.

`python -m sample_factory.benchmark summary` writes these. The default CSV is one line per run, so that any
other statistics can start from it.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sample_factory.benchmark import summary_tables
from sample_factory.benchmark.host import describe_code, package_versions
from sample_factory.benchmark.run_record import strict_json
from sample_factory.benchmark.runs import Run
from sample_factory.benchmark.summary import Summary
from sample_factory.benchmark.summary_tables import BASIC_COLUMNS
from sample_factory.benchmark.tables import Table, latex_text, to_csv, to_latex, to_markdown

_RUN_FIELDS = ("algo", "env", "seed", "status", "score", "score_source", "expert_score", "path", "problem")
JSON_FORMAT = "sample_factory.summary/1"
_HOW_TO_READ = (
    "Scores are means over runs, ± is the population standard deviation; intervals are percentiles of a "
    "stratified bootstrap."
)


def runs_csv(runs: Sequence[Run], columns: Sequence[str] = BASIC_COLUMNS) -> str:
    """One line per run."""
    return to_csv(summary_tables.run_table(runs, columns))


def imitation_csv(runs: Sequence[Run]) -> str:
    """The CSV of imitation's `sacred_output_to_csv.py`: comma and space between columns, nothing quoted."""
    table = summary_tables.run_table(runs, BASIC_COLUMNS)
    return "".join(", ".join(row) + "\n" for row in [list(table.columns), *table.rows])


def to_json(summary: Summary) -> str:
    """Everything, including raw scores."""
    return json.dumps(strict_json(json_content(summary)), indent=2) + "\n"


def json_content(summary: Summary) -> dict[str, Any]:
    """What the JSON form holds; the HTML report embeds the same."""
    return {
        "format": JSON_FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command_line": _command_line(),
        "sources": [str(path) for path in summary.found.paths],
        "score_source": summary.score_source,
        "bootstrap": asdict(summary.options.bootstrap),
        "normalization": summary.references.to_json(),
        "status_counts": dict(summary.found.status_counts()),
        "notes": summary.notes,
        "warnings": summary.found.warnings,
        "cells": [
            {
                "algo": cell.algo,
                "env": cell.env,
                "seeds": [run.seed for run in cell.runs],
                "scores": cell.scores,
                "normalized": cell.normalized,
                **asdict(cell.description),
                "sem": cell.description.sem,
                "ci": [cell.interval.low, cell.interval.high],
                "fps": cell.fps,
                "train_seconds": cell.train_seconds,
            }
            for cell in summary.cells
        ],
        "aggregates": {
            algo: [
                {"metric": e.metric, "value": e.value, "ci": [e.interval.low, e.interval.high]}
                for e in entries
            ]
            for algo, entries in summary.aggregates.items()
        },
        "runs": [{column: getattr(run, column) for column in _RUN_FIELDS} for run in summary.found.runs],
    }


def markdown(summary: Summary) -> str:
    """A document with all tables, what was read, and how to make it again."""
    parts = ["# Benchmark Summary", "\n".join(f"- {line}" for line in facts(summary)), _HOW_TO_READ]
    if summary.unfinished:
        parts += ["## Run status", to_markdown(summary_tables.status_table(summary))]
        parts.append(to_markdown(summary_tables.problem_table(summary.unfinished)))
    parts.append("## Scores")
    if summary.references.is_normalized:
        parts.append(normalization_note(summary))
    for algo in summary.algos:
        parts += [f"### {algo}", to_markdown(summary_tables.environment_table(summary, algo))]
        if summary.aggregates[algo]:
            parts.append(to_markdown(summary_tables.aggregate_table(summary, algo)))
    if len(summary.algos) > 1:
        parts += ["## Comparison", to_markdown(summary_tables.comparison_table(summary))]
    if summary.notes:
        parts += ["## Notes", "\n".join(f"- {note}" for note in summary.notes)]
    parts += ["## How to reproduce", "\n".join(f"- {line}" for line in provenance(summary))]
    return "\n\n".join(parts) + "\n"


def latex(summary: Summary) -> str:
    """One table environment per algorithm; needs the package booktabs."""
    parts = ["% needs \\usepackage{booktabs}"]
    for algo in summary.algos:
        parts.append(_latex_float(summary_tables.environment_table(summary, algo), f"Scores of {algo}"))
        if summary.aggregates[algo]:
            parts.append(
                _latex_float(summary_tables.aggregate_table(summary, algo), f"{algo} over all environments")
            )
    if len(summary.algos) > 1:
        parts.append(_latex_float(summary_tables.comparison_table(summary), "All algorithms"))
    return "\n\n".join(parts) + "\n"


def facts(summary: Summary) -> list[str]:
    """What was read and how it was computed, as sentences."""
    bootstrap, found = summary.options.bootstrap, summary.found
    counts = ", ".join(f"{count} {status}" for status, count in sorted(found.status_counts().items()))
    origins = {"eval": "evaluation of the final policy", "train": "last training episodes"}
    origin = origins.get(summary.score_source, summary.score_source)
    return [
        f"Read: {', '.join(str(path) for path in found.paths)}",
        f"Runs: {len(found.runs)} ({counts})",
        f"Scores: {origin}",
        f"Intervals: {100 * bootstrap.ci:g}%, {bootstrap.reps:,} resamples, seed {bootstrap.seed}"
        + (", tasks resampled too" if bootstrap.resample_tasks else ""),
        f"Date: {datetime.now(UTC):%Y-%m-%d}",
    ]


def normalization_note(summary: Summary) -> str:
    """The references that normalised scores refer to, in a sentence."""
    references = summary.references
    ends = "; ".join(
        f"{env}: {reference.low:g} to {reference.high:g}"
        for env, reference in sorted(references.references.items())
    )
    return f"Normalized scores are (score - low) / (high - low), {references.kind}: {ends}."


def provenance(summary: Summary) -> list[str]:
    """Which command and which code made the summary and the runs."""
    lines = [f"Command: `{shlex.join(_command_line())}`"]
    lines += [
        f"Code of this summary: {code['commit'] or 'no commit yet'}"
        + (" with uncommitted changes" if code["dirty"] else "")
        for code in describe_code(Path.cwd())
    ]
    commits = sorted(
        {
            str(code.get("commit"))[:12] + (" with uncommitted changes" if code.get("dirty") else "")
            for run in summary.found.runs
            for code in (run.record.get("experiment") or {}).get("repositories") or []
        }
    )
    if commits:
        lines.append(f"Code of the runs: {', '.join(commits)}")
    lines.append(f"Packages: {', '.join(package_versions())}")
    return lines


def _latex_float(table: Table, caption: str) -> str:
    lines = [r"\begin{table}", r"\centering", to_latex(table), rf"\caption{{{latex_text(caption)}}}"]
    return "\n".join([*lines, r"\end{table}"])


def _command_line() -> list[str]:
    """What was typed, without the place where this package is installed."""
    return ["python", "-m", "sample_factory.benchmark", *sys.argv[1:]]

"""Entry point: `sf status [MASK...]` says what is running, how fast, for how long, and what went wrong.

Running experiments come first with progress and verdict, then those that failed lately with their last error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

from sample_factory.benchmark import number_format as text
from sample_factory.benchmark.run_record import strict_json
from sample_factory.benchmark.tables import Table, to_text
from sample_factory.experiments.arguments import add_masks, add_place, chosen, make_parser
from sample_factory.experiments.errors import run_command
from sample_factory.experiments.ls import ago, short_score
from sample_factory.experiments.reading import TROUBLED, Experiment, by_status, read_experiments, read_verdict

_MOST_PROBLEMS = 10


def parser() -> argparse.ArgumentParser:
    """The flags of this command."""
    made = make_parser("status", "What is running: frames, speed, time left; and the last errors.")
    add_masks(made)
    add_place(made)
    made.add_argument("--problems", type=int, default=_MOST_PROBLEMS, metavar="N", help="errors to show")
    made.add_argument("--json", action="store_true", help="one JSON object instead of text")
    return made


def running_table(experiments: Sequence[Experiment]) -> Table:
    """One row per experiment that trains now."""
    table = Table(["Experiment", "Env", "PID", "Frames", "Done", "FPS", "Left", "Score"])
    for experiment in experiments:
        share = experiment.progress
        table.rows.append(
            [
                experiment.name,
                experiment.run.env,
                str(experiment.pid) if experiment.pid is not None else "elsewhere",
                text.count(experiment.frames),
                "n/a" if share is None else f"{share:.0%}",
                text.count(experiment.fps),
                text.duration(experiment.left_sec),
                short_score(experiment.score),
            ]
        )
    return table


def report(experiments: Sequence[Experiment], most_problems: int) -> str:
    """The text for people."""
    running = [experiment for experiment in experiments if experiment.is_running]
    lines = [to_text(running_table(running)) if running else "Nothing is running."]
    for experiment in running:
        verdict = read_verdict(experiment.path)
        if verdict:
            lines.append(f"{experiment.name}: limited by {verdict}")
    troubled = latest_problems(experiments)
    if troubled:
        lines.append("")
    for experiment in troubled[:most_problems]:
        problem = experiment.problem or "no error is recorded"
        lines.append(f"{experiment.status} {experiment.name}, {ago(experiment, time.time())}: {problem}")
    if len(troubled) > most_problems:
        lines.append(f"and {len(troubled) - most_problems} more; `sf ls --status FAILED STALE` lists them.")
    counts = ", ".join(f"{count} {status}" for status, count in by_status(experiments).items())
    return "\n".join([*lines, "", f"{len(experiments)} experiments: {counts or 'none'}"])


def latest_problems(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Experiments in trouble, the latest first."""
    return sorted((e for e in experiments if e.status in TROUBLED), key=lambda e: -e.active)


def _execute(args: argparse.Namespace) -> int:
    experiments = read_experiments(chosen(args))
    if not args.json:
        sys.stdout.write(report(experiments, args.problems) + "\n")
        return 0
    running = [
        experiment.to_json() | {"verdict": read_verdict(experiment.path)}
        for experiment in experiments
        if experiment.is_running
    ]
    problems = [experiment.to_json() for experiment in latest_problems(experiments)[: args.problems]]
    content = {"running": running, "problems": problems, "counts": by_status(experiments)}
    sys.stdout.write(json.dumps(strict_json(content), indent=2) + "\n")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code."""
    args = parser().parse_args(argv)
    return run_command(lambda: _execute(args))


if __name__ == "__main__":
    sys.exit(main())

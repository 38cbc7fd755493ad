"""`benchmark compare RUNS [BASELINE]`: is one algorithm better than another?

Exit code 4 with `--fail_below` makes it a regression gate for CI.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path

from sample_factory.benchmark import number_format as text
from sample_factory.benchmark.commands.arguments import (
    add_reading,
    add_statistics,
    baselines_of,
    bootstrap_of,
    deliver,
    find,
    read_options,
    warn,
)
from sample_factory.benchmark.comparison import (
    Comparison,
    Contestant,
    choose_algorithms,
    compare,
    contestant,
)
from sample_factory.benchmark.errors import ExitCode
from sample_factory.benchmark.references import reference_table
from sample_factory.benchmark.run_record import strict_json
from sample_factory.benchmark.runs import Run, scored_runs
from sample_factory.benchmark.statistics.bootstrap import Interval
from sample_factory.benchmark.statistics.improvement import cliffs_delta
from sample_factory.benchmark.tables import Table, to_markdown, to_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of this command."""
    parser.add_argument("runs", metavar="RUNS", help="the candidate's runs")
    parser.add_argument(
        "baseline", nargs="?", metavar="BASELINE", help="the baseline's runs; RUNS if not given"
    )
    parser.add_argument("--algo", help="the candidate, if RUNS holds several algorithms")
    parser.add_argument("--baseline_algo", "--baseline-algo", help="the baseline, if BASELINE holds several")
    parser.add_argument("--envs", nargs="+", default=[], help="compare on these environments only")
    parser.add_argument("--matrix", action="store_true", help="all pairs of algorithms in RUNS")
    parser.add_argument(
        "--format", choices=("text", "markdown", "json"), default="text", help="of the output"
    )
    parser.add_argument("--output", type=Path, help="file to write; stdout if not given")
    parser.add_argument(
        "--fail_below",
        type=float,
        metavar="P",
        help="exit code 4 if the candidate is worse beyond noise: upper bound below P, for example 0.5",
    )
    add_reading(parser)
    add_statistics(parser)


def execute(args: argparse.Namespace) -> int:
    """Compares, and says so."""
    candidates = scored_runs(find([args.runs], args), read_options(args))
    if args.matrix:
        deliver(_matrix(args, candidates), args.output)
        return ExitCode.OK
    baselines = (
        candidates if args.baseline is None else scored_runs(find([args.baseline], args), read_options(args))
    )
    algo, baseline_algo = choose_algorithms(candidates, baselines, args.algo, args.baseline_algo)
    comparison = _compare(
        args,
        contestant(candidates, algo, args.runs, args.envs),
        contestant(baselines, baseline_algo, args.baseline or args.runs, args.envs),
        [*candidates, *baselines],
    )
    warn(comparison.warnings)
    formats = {"text": comparison_text, "markdown": comparison_markdown, "json": comparison_json}
    deliver(formats[args.format](comparison), args.output)
    if args.fail_below is not None and comparison.is_below(args.fail_below):
        warn([f"{comparison.candidate.name} is below --fail_below={args.fail_below:g}: beyond noise."])
        return ExitCode.GATE_FAILED
    return ExitCode.OK


def comparison_text(comparison: Comparison) -> str:
    """For a terminal."""
    counts = [env.runs for env in comparison.envs]
    lines = [
        f"{comparison.candidate.name} vs {comparison.baseline.name}: {_plural(len(counts), 'environment')}, "
        f"{_range([n for n, _ in counts])} vs {_range([m for _, m in counts])} runs each",
        _headline(comparison),
    ]
    rows = [
        [
            f"  {env.env}",
            f"{env.improvement:.2f}",
            f"p={env.p_value:.3f} (Holm {env.p_holm:.3f})",
            f"mean {text.score(env.mean_candidate)} vs {text.score(env.mean_baseline)}",
        ]
        for env in comparison.envs
    ]
    lines += to_text(Table(["", "", "", ""], rows)).splitlines()[1:]
    if comparison.iqm_difference is not None and comparison.iqm_interval is not None:
        lines.append(
            f"Difference in IQM: {comparison.iqm_difference:+.3f} {text.bounds(comparison.iqm_interval)}"
        )
    return "\n".join([*lines, f"Verdict: {comparison.verdict}"]) + "\n"


def comparison_markdown(comparison: Comparison) -> str:
    """For a pull request."""
    table = Table(["Environment", "P(improvement)", "p", "p (Holm)", "Candidate", "Baseline", "Runs"])
    table.rows = [
        [
            env.env,
            f"{env.improvement:.3f}",
            f"{env.p_value:.3f}",
            f"{env.p_holm:.3f}",
            text.score(env.mean_candidate),
            text.score(env.mean_baseline),
            f"{env.runs[0]} / {env.runs[1]}",
        ]
        for env in comparison.envs
    ]
    parts = [
        f"## {comparison.candidate.name} vs {comparison.baseline.name}",
        _headline(comparison),
        to_markdown(table),
        f"**Verdict**: {comparison.verdict}",
    ]
    return "\n\n".join(parts) + "\n"


def comparison_json(comparison: Comparison) -> str:
    """For programs."""
    content = {
        "format": "sample_factory.comparison/1",
        "candidate": {"algo": comparison.candidate.algo, "runs": comparison.candidate.place},
        "baseline": {"algo": comparison.baseline.algo, "runs": comparison.baseline.place},
        "probability_of_improvement": comparison.improvement,
        "cliffs_delta": cliffs_delta(comparison.improvement),
        "ci": [comparison.interval.low, comparison.interval.high],
        "bootstrap": asdict(comparison.settings),
        "iqm_difference": comparison.iqm_difference,
        "iqm_difference_ci": asdict(comparison.iqm_interval) if comparison.iqm_interval else None,
        "envs": [asdict(env) for env in comparison.envs],
        "verdict": comparison.verdict,
        "more_seeds_needed": comparison.runs_needed,
        "warnings": comparison.warnings,
    }
    return json.dumps(strict_json(content), indent=2) + "\n"


def _compare(
    args: argparse.Namespace, candidate: Contestant, baseline: Contestant, runs: Sequence[Run]
) -> Comparison:
    shared = candidate.scores.keys() & baseline.scores.keys()
    sides = (candidate.algo, baseline.algo)
    relevant = [run for run in runs if run.env in shared and run.algo in sides]
    references = reference_table(
        args.normalize, relevant, baselines_of(args, [args.runs, args.baseline or args.runs])
    )
    if args.unequal == "truncate" and shared:
        shortest = min(len(side.scores[env]) for side in (candidate, baseline) for env in shared)
        candidate, baseline = (
            Contestant(side.algo, side.place, {env: side.scores[env][:shortest] for env in side.scores})
            for side in (candidate, baseline)
        )
    return compare(candidate, baseline, bootstrap_of(args), references)


def _matrix(args: argparse.Namespace, runs: Sequence[Run]) -> str:
    algos = sorted({run.algo for run in runs})
    sides = {algo: contestant(runs, algo, "", args.envs) for algo in algos}
    table = Table(["P(row > column)", *algos], [[algo, *([""] * len(algos))] for algo in algos])
    for first, second in combinations(range(len(algos)), 2):
        candidate, baseline = sides[algos[first]], sides[algos[second]]
        if candidate.scores.keys() & baseline.scores.keys():
            comparison = _compare(args, candidate, baseline, runs)
            value, bounds = comparison.improvement, comparison.interval
            mirrored = Interval(1.0 - bounds.high, 1.0 - bounds.low)
            table.rows[first][1 + second] = f"{value:.3f} {text.bounds(bounds)}"
            table.rows[second][1 + first] = f"{1.0 - value:.3f} {text.bounds(mirrored)}"
    if args.format == "json":
        return (
            json.dumps({row[0]: dict(zip(algos, row[1:], strict=True)) for row in table.rows}, indent=2)
            + "\n"
        )
    return (to_markdown(table) if args.format == "markdown" else to_text(table)) + "\n"


def _headline(comparison: Comparison) -> str:
    ci, bounds = f"{100 * comparison.settings.ci:g}% CI", comparison.interval
    limits = f"{bounds.low:.3f}, {bounds.high:.3f}" if bounds.is_known else text.NOT_AVAILABLE
    return (
        f"Probability of improvement of {comparison.candidate.algo} over {comparison.baseline.algo}: "
        f"{comparison.improvement:.3f} ({ci} {limits}; {comparison.settings.reps:,} resamples)"
    )


def _plural(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}-{high}"

"""`sf bench speed`: how fast training and sampling are, what they use, and how that grows with the work.

Every measurement becomes one JSON file with machine, commit, command and figures; `--tables` renders
docs/performance.md from those files. `watching` does the measuring, from outside.

Invariant: a result is written when it is complete, and replaces only the one of the same name.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sample_factory.bench.measurement import cpu_split, speed_figures
from sample_factory.bench.sweeps import SWEEPS, Point
from sample_factory.bench.tables import PAGE, write_page
from sample_factory.bench.watching import Observation, Timing, TrialFailedError, watch, watch_in_turn
from sample_factory.bench.workloads import SAMPLED, WORKLOADS, Workload
from sample_factory.benchmark.host import describe_code, describe_host, package_versions
from sample_factory.benchmark.run_record import strict_json
from sample_factory.config.errors import ConfigError, report_and_exit
from sample_factory.config.experiment_files import write_json
from sample_factory.processes.affinity import available_cores

FORMAT = "sample_factory.speed/1"
RESULTS = Path("docs/results/speed")
TRAINEE = "sample_factory.bench.trainee"
BARE_LOOP = "sample_factory.bench.bare_loop"
INTERRUPTED = 2
MIN_WINDOWS = 3  # fewer say nothing about the spread


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, or renders what has been measured; returns 1 when a measurement failed, 2 after Ctrl+C."""
    typed = list(sys.argv[1:] if argv is None else argv)
    args = _parser().parse_args(typed)
    if args.tables:
        page = write_page(args.page, args.results)
        sys.stdout.write(f"{page} shows the results of {args.results}.\n")
        return 0
    measure = _scaling if args.scaling else _sampling if args.sampling else _training
    failures = 0
    for name in _chosen(args):
        try:
            file_name, content = measure(args, name)
        except TrialFailedError as error:
            sys.stderr.write(f"{name}: {error}\n")
            failures += 1
            continue
        except KeyboardInterrupt:
            sys.stderr.write("Interrupted; what was measured before is kept.\n")
            return INTERRUPTED
        args.results.mkdir(parents=True, exist_ok=True)
        path = args.results / f"{file_name}{args.label and '_'}{args.label}.json"
        write_json(path, strict_json(_provenance(typed) | content))
        sys.stdout.write(f"{path}\n")
        sys.stdout.flush()
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sf bench speed", description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add(
        "--workloads", default="", help=f"comma separated, of {', '.join(WORKLOADS)}; default: installed ones"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--sampling", action="store_true", help="the dummy sampler against a bare loop")
    what.add_argument("--scaling", choices=list(SWEEPS), help="how cost grows with this quantity")
    what.add_argument("--tables", action="store_true", help="render the page from the results")
    add("--values", type=_numbers, default=[], help="comma separated values of the sweep")
    add("--in_turn", action="store_true", help="with --scaling: all values at once, a window each in turn")
    add("--workers", type=int, default=len(available_cores()), help="rollout workers (default: cores)")
    add("--envs", type=int, default=0, help="environments per worker (default: the workload's)")
    add("--flags", default="", help="further flags for the trainer")
    add("--windows", type=int, default=3, help="measured windows, at least 3")
    add("--repeats", type=int, default=2, help="in turn: of a window that other programs disturbed")
    add("--window_sec", type=float, default=20.0, help="length of a window")
    add("--warmup_sec", type=float, default=8.0, help="not measured, after the first SGD step")
    add("--results", type=Path, default=RESULTS, help="directory of the JSON files")
    add("--label", default="", help="added to the names of the files")
    add("--page", type=Path, default=PAGE, help="where --tables writes")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def _chosen(args: argparse.Namespace) -> list[str]:
    names = [name for name in args.workloads.split(",") if name]
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        known = ", ".join(WORKLOADS)
        report_and_exit(ConfigError(f"--workloads={unknown[0]} does not exist; use some of {known}."))
    if args.windows < MIN_WINDOWS:
        report_and_exit(ConfigError(f"--windows={args.windows} has no spread; use --windows={MIN_WINDOWS}."))
    if args.in_turn and not args.scaling:
        report_and_exit(ConfigError("--in_turn compares the values of a sweep; add --scaling=policies."))
    if names:
        return names
    if args.scaling:
        return ["cartpole"]
    candidates = SAMPLED if args.sampling else tuple(WORKLOADS)
    return [name for name in candidates if importlib.util.find_spec(WORKLOADS[name].package)]


def _timing(args: argparse.Namespace) -> Timing:
    return Timing(args.warmup_sec, args.window_sec, args.windows, args.repeats)


def _provenance(typed: list[str]) -> dict[str, Any]:
    code = describe_code(Path(__file__).parent)
    machine = {key: value for key, value in describe_host().items() if key != "hostname"}
    return {
        "format": FORMAT,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine | {"usable_cores": len(available_cores()), "packages": package_versions()},
        "commit": code[0]["commit"] if code else None,
        "uncommitted_changes": code[0]["dirty"] if code else None,
        "bench_command": " ".join(["sf bench speed", *typed]),
    }


def _training(args: argparse.Namespace, name: str) -> tuple[str, dict[str, Any]]:
    workload = WORKLOADS[name]
    envs = args.envs or workload.envs_per_worker
    flags = [*workload.training_flags(args.workers, envs), *args.flags.split()]
    point = Point(0, args.workers * envs, flags)
    row = _train_once(args, workload, point)
    _say(name, row)
    return f"training_{name}", {"kind": "training", "workload": name} | row


def _train_once(args: argparse.Namespace, workload: Workload, point: Point) -> dict[str, Any]:
    return _row(watch(TRAINEE, point.flags, _timing(args), until_trained=True), workload, point)


def _row(seen: Observation, workload: Workload, point: Point) -> dict[str, Any]:
    row = {
        "command": _shown(TRAINEE, point.flags),
        "num_envs": point.num_envs,
        **_figures(seen, workload),
        "all_envs_advanced": seen.envs_advancing >= point.num_envs,
    }
    return row | ({"cpu_percent": cpu_split(seen.windows, seen.activity_sec)} if seen.activity_sec else {})


def _figures(seen: Observation, workload: Workload) -> dict[str, Any]:
    return speed_figures(seen.windows, workload.frames_per_step) | {
        "peak_pss_mb": seen.peak_pss_mb,
        "num_processes": seen.num_processes,
        "start_sec": seen.start_sec,
        "envs_advancing": seen.envs_advancing,
    }


def _sampling(args: argparse.Namespace, name: str) -> tuple[str, dict[str, Any]]:
    """The dummy sampler and the bare loop in turn, so that a slow minute of the machine hits both."""
    workload = WORKLOADS[name]
    flags = [*workload.sampling_flags(args.workers, args.envs or workload.sampled_envs), *args.flags.split()]
    modules = {"dummy_sampler": TRAINEE, "bare_loop": BARE_LOOP}
    commands = [(module, flags) for module in modules.values()]
    rows = {}
    for (title, module), seen in zip(
        modules.items(), watch_in_turn(commands, _timing(args), until_trained=False), strict=True
    ):
        rows[title] = speed_figures(seen.windows, workload.frames_per_step) | {
            "command": _shown(module, flags),
            "peak_pss_mb": seen.peak_pss_mb,
        }
    rates = [rows[title]["frames_per_sec"]["windows"] for title in modules]
    ratios = [ours / bare for ours, bare in zip(*rates, strict=True)]
    ratio = {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}
    # What both cost in CPU time: says the same on a machine that others use too.
    cpu_ratio = rows["bare_loop"]["core_us_per_step"] / rows["dummy_sampler"]["core_us_per_step"]
    sys.stdout.write(
        f"{name}: dummy sampler / bare loop {ratio['median']:.3f}, by CPU time {cpu_ratio:.3f}\n"
    )
    content = {"kind": "sampling", "workload": name, "ratio": ratio, "cpu_ratio": cpu_ratio}
    return f"sampling_{name}", content | rows


def _scaling(args: argparse.Namespace, name: str) -> tuple[str, dict[str, Any]]:
    sweep, workload = SWEEPS[args.scaling], WORKLOADS[name]
    if args.envs:
        workload = replace(workload, envs_per_worker=args.envs)
    values = args.values or list(sweep.values)
    points = [sweep.point(workload, args.workers, value) for value in values]
    points = [replace(point, flags=[*point.flags, *args.flags.split()]) for point in points]
    train = _train_in_turn if args.in_turn else _train_one_by_one
    rows = []
    for value, row in zip(values, train(args, workload, points), strict=True):
        rows.append({"value": value} | row)
        _say(f"{name}, {sweep.quantity} {value}", row)
    content = {"kind": "scaling", "workload": name, "sweep": args.scaling, "quantity": sweep.quantity}
    return f"scaling_{args.scaling}_{name}", content | {"in_turn": args.in_turn, "rows": rows}


def _train_one_by_one(
    args: argparse.Namespace, workload: Workload, points: Sequence[Point]
) -> Iterator[dict[str, Any]]:
    for point in points:
        try:
            yield _train_once(args, workload, point)
        except TrialFailedError as error:  # the others still say something; the table shows the gap
            yield {"command": _shown(TRAINEE, point.flags), "num_envs": point.num_envs, "error": str(error)}


def _train_in_turn(
    args: argparse.Namespace, workload: Workload, points: Sequence[Point]
) -> Iterator[dict[str, Any]]:
    commands = [(TRAINEE, point.flags) for point in points]
    seen = watch_in_turn(commands, _timing(args), until_trained=True)
    yield from (_row(one, workload, point) for one, point in zip(seen, points, strict=True))


def _shown(module: str, flags: Sequence[str]) -> str:
    """The command as anybody could type it, without the counters."""
    module = "sample_factory.run_algorithm" if module == TRAINEE else module
    return " ".join(["python", "-m", module, *flags])


def _say(name: str, row: dict[str, Any]) -> None:
    if "error" in row:
        sys.stderr.write(f"{name}: {row['error']}\n")
        return
    speed = row["frames_per_sec"]
    disturbed = "" if row["undisturbed"] else " (other programs used the machine)"
    sys.stdout.write(
        f"{name}: {speed['median']:.0f} frames/s ({speed['min']:.0f} to {speed['max']:.0f}), "
        f"{row['core_us_per_step']:.0f} core-us a step, {row['peak_pss_mb']:.0f} MB{disturbed}\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

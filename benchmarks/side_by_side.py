"""Training systems side by side: all alive, one awake at a time, a window each, round after round.

    python benchmarks/side_by_side.py --harness DIR --peers DIR --workload doom_basic --variant gru \
        --systems ours:32 sf2:8 sb3:16 --output docs/results/speed/peers_doom_basic_gru.json

Between minutes the same program may run at half its speed on a shared machine, so systems that run one after
the other can't be compared; windows seconds apart can. DIR of `--harness` holds the runners and environments
that all systems share, DIR of `--peers` an environment for each system. Steps are counted inside the
environments. `bound_env`, `bound_forward` and `bound_training` (`bound_runner`) are the parts of a step on
their own; with all three the file says how much of the bound they set the first system reaches.

Invariant: whatever happens, no process of a system is left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from sample_factory.bench.measurement import FOREIGN_LIMIT
from sample_factory.bench.watching import machine_sec, pause_tree, pss_mb, resume_tree, tree_of
from sample_factory.benchmark.host import describe_code, describe_host, package_versions
from sample_factory.processes.affinity import available_cores

FRAMES_PER_STEP = {"cartpole": 1, "doom_basic": 4, "doom_benchmark": 4, "pong": 4, "halfcheetah": 1}
EPOCHS = {"cartpole": 4, "halfcheetah": 2}  # 1 elsewhere, for every system
OURS, BOUND = "ours", "bound_"
BOUND_PARTS = ("env", "forward", "training")
START_LIMIT_SEC = 180.0
EXIT_LIMIT_SEC = 20.0
CLEAN_UP_SEC = 2.0
LOOK_SEC = 0.5


@dataclass(frozen=True)
class System:
    """What to run: a runner's name, environments for each of two workers, further flags."""

    name: str
    envs: int
    flags: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> System:
        """From `name:envs` or `name:envs:--flag=value --flag=value`."""
        name, envs, *flags = text.split(":", 2)
        return cls(name, int(envs), tuple(flags[0].split()) if flags else ())

    @property
    def runs_ours(self) -> bool:
        """Whether it is this project, or a part of a step on its own: both run in this environment."""
        return self.name == OURS or self.is_bound

    @property
    def is_bound(self) -> bool:
        """Whether it is a part of a step on its own."""
        return self.name.startswith(BOUND)

    def command(self, args: argparse.Namespace) -> list[str]:
        """The runner with its arguments."""
        here = Path(__file__).parent
        python, runner = Path(sys.executable), here / "peer_runner.py"
        part: list[str] = []
        if self.is_bound:
            runner, part = here / "bound_runner.py", ["--part", self.name.removeprefix(BOUND)]
        elif self.name != OURS:
            python = args.peers / self.name / "bin" / "python"
            runner = args.harness / f"run_{self.name}.py"
        shape = ["--workload", args.workload, "--variant", args.variant, "--workers", "2", "--envs"]
        return [str(python), str(runner), *shape, str(self.envs), *part, *self.flags]


class SystemFailedError(RuntimeError):
    """A system did not start, or ended; the message holds the end of its output."""


@dataclass
class Window:
    """What one system did while it alone was awake."""

    seconds: float
    steps: int
    cpu_sec: float
    foreign_cores: float
    envs_advancing: int


@dataclass
class Program:
    """A running system."""

    system: System
    process: subprocess.Popen[bytes]
    directory: Path
    started: float
    first_train_sec: float = 0.0
    error: str = ""  # why it is no longer measured
    peak_pss_mb: float = 0.0
    windows: list[Window] = field(default_factory=list)
    repeated: int = 0  # windows that others disturbed and that do not count
    _cpu: dict[tuple[int, float], float] = field(default_factory=dict)

    def await_training(self) -> None:
        """Returns after the first optimiser step."""
        while not (self.directory / "mark").exists():
            if self.process.poll() is not None or time.time() - self.started > START_LIMIT_SEC:
                raise SystemFailedError(f"did not begin to train:\n{self.tail()}")
            time.sleep(0.1)
        self.first_train_sec = time.time() - self.started

    def tail(self) -> str:
        """The end of its output."""
        lines = (self.directory / "log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-15:])

    def tree(self) -> list[psutil.Process]:
        """All its processes; some systems put theirs into sessions of their own."""
        return tree_of(self.process.pid)

    def pause(self) -> None:
        """Puts it to sleep."""
        pause_tree(self.tree())

    def resume(self) -> None:
        """Wakes it."""
        resume_tree(self.tree())

    def counters(self) -> list[int]:
        """Steps of every environment."""
        from envs import slot_steps

        return list(slot_steps(str(self.directory / "counters")))

    def cpu_sec(self) -> float:
        """CPU time of everything that was ever seen of the tree."""
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                self._cpu[process.pid, process.create_time()] = times.user + times.system
        return sum(self._cpu.values())

    def look_at_memory(self) -> None:
        """Raises the peak of the tree's PSS."""
        self.peak_pss_mb = max(self.peak_pss_mb, sum(map(pss_mb, self.tree())))

    def run_for(self, settle_sec: float, window_sec: float) -> Window:
        """Awake for both times; what happened in the second."""
        self.resume()
        time.sleep(settle_sec)
        begin = time.time(), self.counters(), self.cpu_sec(), machine_sec()
        while time.time() < begin[0] + window_sec:
            time.sleep(LOOK_SEC)
            if self.process.poll() is not None:
                raise SystemFailedError(f"ended while it was measured:\n{self.tail()}")
        seconds = time.time() - begin[0]
        after, used, machine = self.counters(), self.cpu_sec() - begin[2], machine_sec() - begin[3]
        self.pause()
        before = begin[1] + [0] * (len(after) - len(begin[1]))
        gained = [b - a for a, b in zip(before, after, strict=True)]
        return Window(seconds, sum(gained), used, (machine - used) / seconds, sum(g > 0 for g in gained))

    def measure(self, settle_sec: float, window_sec: float, repeats: int) -> None:
        """One more window; repeated if others took too much of the machine, and the quietest one counts."""
        tries = [self.run_for(settle_sec, window_sec)]
        while tries[-1].foreign_cores > FOREIGN_LIMIT and len(tries) <= repeats:
            tries.append(self.run_for(settle_sec, window_sec))
        self.windows.append(min(tries, key=lambda window: window.foreign_cores))
        self.repeated += len(tries) - 1
        self.look_at_memory()


def _python_path(system: System, harness: Path) -> str:
    """Ours may run from a checkout that is not installed; nobody else's environment may see it."""
    inherited = os.environ.get("PYTHONPATH", "") if system.runs_ours else ""
    return os.pathsep.join(filter(None, [str(harness), inherited]))


@contextmanager
def running(system: System, args: argparse.Namespace) -> Iterator[Program]:
    """The system in a session of its own, ended by Ctrl+C and then by force."""
    directory = Path(tempfile.mkdtemp(prefix="side_by_side_"))
    (directory / "_vizdoom").mkdir()  # else games that start together race to make it
    environment = os.environ | {
        "PEERBENCH_COUNTERS": str(directory / "counters"),
        "PEERBENCH_MARK": str(directory / "mark"),
        "PEERBENCH_TMP": str(directory),
        "PEERS_DIR": str(args.peers),
        "PYTHONPATH": _python_path(system, args.harness),
        "PYTHONWARNINGS": "ignore",
    }
    environment.pop("VIRTUAL_ENV", None)
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            system.command(args),
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=directory,
        )
    program = Program(system, process, directory, time.time())
    try:
        yield program
    finally:
        _end(program)
        shutil.rmtree(directory, ignore_errors=True)


def _end(program: Program) -> None:
    left = program.tree()
    program.resume()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        program.process.wait(EXIT_LIMIT_SEC)
    # Helpers that outlive the program remove its shared memory when they notice.
    _, left = psutil.wait_procs(left, timeout=CLEAN_UP_SEC)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    program.process.wait()


def measure(args: argparse.Namespace) -> list[Program]:
    """All rounds; the first, as long as the warm-up, does not count."""
    with ExitStack() as alive:
        programs = []
        for system in args.systems:
            programs.append(alive.enter_context(running(system, args)))
            _attempt(programs[-1], programs[-1].await_training)
            programs[-1].pause()
        for program in programs:
            _attempt(program, partial(program.run_for, 0.0, args.warmup))
        for _ in range(args.rounds):
            for program in programs:
                _attempt(program, partial(program.measure, args.settle, args.window, args.repeats))
        return programs


def _attempt(program: Program, work: Callable[[], object]) -> None:
    """A system that fails is left out of all that follows; the others go on."""
    if program.error:
        return
    try:
        work()
    except SystemFailedError as error:
        program.error = str(error)
        print(f"{program.system.name}: {error}", file=sys.stderr, flush=True)


def figures(program: Program, reference: Program, frames_per_step: int) -> dict[str, Any]:
    """One row: speed, cost, memory, and ratios to the reference, round by round."""
    what = {
        "system": program.system.name,
        "envs_per_worker": program.system.envs,
        "flags": " ".join(program.system.flags),
    }
    if program.error:
        return what | {"error": program.error.partition("\n")[0]}
    rates = [frames_per_step * w.steps / w.seconds for w in program.windows]
    pairs = [
        (w.steps / w.seconds) / max(other.steps / other.seconds, 1e-9)
        for w, other in zip(program.windows, reference.windows, strict=True)
    ]
    return what | {
        "frames_per_sec": {"median": statistics.median(rates), "windows": [round(rate, 1) for rate in rates]},
        "ratio": {"median": statistics.median(pairs), "min": min(pairs), "max": max(pairs)},
        "core_us_per_step": 1e6
        * sum(w.cpu_sec for w in program.windows)
        / max(sum(w.steps for w in program.windows), 1),
        "peak_pss_mb": program.peak_pss_mb,
        "first_train_sec": program.first_train_sec,
        "repeated_windows": program.repeated,
        "foreign_cores": [round(w.foreign_cores, 2) for w in program.windows],
        "undisturbed": all(w.foreign_cores <= FOREIGN_LIMIT for w in program.windows),
        "envs_advancing": max(w.envs_advancing for w in program.windows),
    }


def share_of_bound(programs: Sequence[Program], epochs: int) -> dict[str, Any] | None:
    """The first system's speed against what the parts of its steps allow, round by round."""
    parts = {program.system.name.removeprefix(BOUND): program for program in programs}
    if not all(part in parts and not parts[part].error for part in BOUND_PARTS):
        return None
    shares, costs = [], []
    for number, window in enumerate(programs[0].windows):
        seconds = {part: parts[part].windows[number] for part in BOUND_PARTS}
        cost = {part: w.seconds / w.steps for part, w in seconds.items()}  # of two cores together
        costs.append(cost["env"] + cost["forward"] + epochs * cost["training"])
        shares.append(window.steps / window.seconds * costs[-1])
    return {
        "bound_steps_per_sec": 1 / statistics.median(costs),
        "share": {"median": statistics.median(shares), "min": min(shares), "max": max(shares)},
    }


def report(programs: Sequence[Program], args: argparse.Namespace) -> dict[str, Any]:
    """Everything about the run, for the JSON file; ratios are to the last system that ran."""
    code = describe_code(Path(__file__).parent)
    machine = {key: value for key, value in describe_host().items() if key != "hostname"}
    frames = FRAMES_PER_STEP[args.workload]
    reference = next(program for program in reversed(programs) if not program.error)
    return {
        "kind": "peers",
        "workload": args.workload,
        "variant": args.variant,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine | {"usable_cores": len(available_cores()), "packages": package_versions()},
        "commit": code[0]["commit"] if code else None,
        "uncommitted_changes": code[0]["dirty"] if code else None,
        "bench_command": f"python benchmarks/side_by_side.py {_shown(sys.argv[1:])}",
        "window_sec": args.window,
        "rows": [figures(program, reference, frames) for program in programs],
        "bound": share_of_bound(programs, EPOCHS.get(args.workload, 1)),
    }


def _shown(arguments: list[str]) -> str:
    """The command line with every place as its last part, and quotes where they are needed."""
    return " ".join(
        shlex.quote(Path(a).name if os.path.isabs(a) or os.path.isdir(a) else a) for a in arguments
    )


def _line(row: dict[str, Any]) -> str:
    what = f"{row['system']:>14} x{row['envs_per_worker']:<4}{row['flags'][:36]:36} "
    if "error" in row:
        return what + row["error"]
    ratio = row["ratio"]
    return what + (
        f"{row['frames_per_sec']['median']:9.0f} frames/s, ratio {ratio['median']:.2f} "
        f"({ratio['min']:.2f} to {ratio['max']:.2f}), {row['core_us_per_step']:7.1f} core-us, "
        f"{row['peak_pss_mb']:6.0f} MB, {row['envs_advancing']} envs, foreign {max(row['foreign_cores'])}"
    )


def main() -> None:
    """Measures, prints a line for each system, and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--harness", type=Path, required=True, help="directory of the shared runners")
    parser.add_argument("--peers", type=Path, required=True, help="directory of the systems' environments")
    parser.add_argument("--workload", choices=list(FRAMES_PER_STEP), required=True)
    parser.add_argument("--variant", choices=["ff", "gru", "lstm"], default="ff")
    parser.add_argument("--systems", nargs="+", required=True, metavar="NAME:ENVS[:FLAGS]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--window", type=float, default=12.0, help="seconds that count, per system and round")
    parser.add_argument("--repeats", type=int, default=2, help="of a window that others disturbed")
    parser.add_argument("--settle", type=float, default=1.5, help="seconds after waking that do not count")
    parser.add_argument("--warmup", type=float, default=8.0)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    args.harness, args.peers = args.harness.resolve(), args.peers.resolve()
    args.systems = [System.parse(text) for text in args.systems]
    sys.path.insert(0, str(args.harness))
    for number in (signal.SIGINT, signal.SIGTERM):  # shells turn Ctrl+C off for what runs in the background
        signal.signal(number, signal.default_int_handler)
    result = report(measure(args), args)
    for row in result["rows"]:
        print(f"{args.workload} {args.variant} {_line(row)}")
    if result["bound"]:
        print(f"share of the bound: {result['bound']}")
    if args.output:
        args.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

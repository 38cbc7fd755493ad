"""Systems that are measured in turn: real programs, a harness of a few lines in place of the shared one."""

import itertools
import json
import statistics
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "side_by_side.py"
ENVS = """
def slot_steps(path):
    try:
        return [int(open(path).read() or 0)]
    except FileNotFoundError:
        return []
"""
# Steps `--speed` times in 10 ms, says so in the file of counters, and has a child that must not survive it.
SYSTEM = """
import argparse, os, pathlib, subprocess, sys, time
parser = argparse.ArgumentParser()
for flag in ("--workload", "--variant", "--workers", "--envs"):
    parser.add_argument(flag, required=True)
parser.add_argument("--speed", type=int, default=1)
parser.add_argument("--fails", choices=["at once", "later"])
args = parser.parse_args()
if args.fails == "at once":
    sys.exit("no licence")
sleep = "import time; time.sleep(600)  # child of " + os.environ["PEERBENCH_TMP"]
subprocess.Popen([sys.executable, "-c", sleep])
moments = pathlib.Path(__file__).with_suffix(".moments").open("w", buffering=1)
counters = pathlib.Path(os.environ["PEERBENCH_COUNTERS"])
pathlib.Path(os.environ["PEERBENCH_MARK"]).touch()
begin, steps = time.time(), 0
while args.fails is None or time.time() < begin + 1.0:
    steps += args.speed
    print(time.time(), file=moments)
    temporary = counters.with_suffix(".new")
    temporary.write_text(str(steps))
    temporary.replace(counters)
    time.sleep(0.01)
"""


@pytest.fixture
def run(tmp_path):
    """Runs the script with systems of the names `fast` and `slow`; gives its result and its output."""
    harness, peers = tmp_path / "harness", tmp_path / "peers"
    harness.mkdir()
    (harness / "envs.py").write_text(ENVS)
    for name in ("fast", "slow"):
        (harness / f"run_{name}.py").write_text(SYSTEM)
        (peers / name / "bin").mkdir(parents=True)
        (peers / name / "bin" / "python").symlink_to(sys.executable)

    def start(*systems):
        command = [sys.executable, str(SCRIPT), "--harness", str(harness), "--peers", str(peers)]
        command += ["--workload", "cartpole", "--rounds", "3", "--window", "0.5", "--settle", "0.1"]
        command += ["--repeats", "0"]  # other tests run meanwhile
        command += ["--warmup", "0.5", "--output", str(tmp_path / "result.json"), "--systems", *systems]
        environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0, done.stderr
        return json.loads((tmp_path / "result.json").read_text()), done

    yield start
    assert not [p for p in psutil.process_iter() if str(tmp_path) in " ".join(_command_of(p))]
    assert not list(tmp_path.glob("side_by_side_*"))


def _command_of(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_the_ratio_of_two_systems_is_that_of_their_steps(run):
    result, _ = run("fast:4:--speed 30", "slow:2:--speed 10")
    fast, slow = result["rows"]
    assert (fast["system"], fast["envs_per_worker"], fast["flags"]) == ("fast", 4, "--speed 30")
    assert len(fast["frames_per_sec"]["windows"]) == 3
    windows = zip(fast["frames_per_sec"]["windows"], slow["frames_per_sec"]["windows"], strict=True)
    ratios = [first / second for first, second in windows]
    assert fast["ratio"]["median"] == pytest.approx(statistics.median(ratios), rel=0.01)
    assert fast["ratio"]["max"] > 1.5  # three times the steps in each of their turns
    assert slow["ratio"] == {"median": 1.0, "min": 1.0, "max": 1.0}
    assert result["kind"] == "peers"
    assert result["bound"] is None


def test_only_one_system_is_awake_at_a_time(run, tmp_path):
    run("fast:1", "slow:1")
    moments = sorted(
        (float(moment), name)
        for name in ("fast", "slow")
        for moment in (tmp_path / "harness" / f"run_{name}.moments").read_text().split()
    )
    changes = sum(first[1] != second[1] for first, second in itertools.pairwise(moments))
    assert len(moments) > 20
    assert changes <= 2 * (1 + 1 + 3 + 1)  # starting, warming up, three rounds, ending


@pytest.mark.parametrize(
    ("fails", "message"), [("at once", "did not begin to train"), ("later", "ended while it was measured")]
)
def test_a_system_that_fails_is_reported_and_the_others_go_on(run, fails, message, tmp_path):
    source = tmp_path / "harness" / "run_slow.py"
    source.write_text(
        SYSTEM.replace("args = parser.parse_args()", f"args = parser.parse_args()\nargs.fails = {fails!r}")
    )
    result, done = run("fast:1", "slow:1")
    fast, slow = result["rows"]
    assert message in slow["error"]
    assert fast["ratio"]["median"] == 1.0
    if fails == "at once":
        assert "no licence" in done.stderr


@pytest.fixture
def side_by_side(monkeypatch):
    """The script as a module."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import side_by_side

    return side_by_side


@pytest.mark.parametrize(
    ("foreign", "counted", "repeated"),
    [
        ([0.1], 0.1, 0),
        ([0.6, 0.0], 0.0, 1),
        ([0.6, 0.3, 0.4], 0.3, 2),
    ],
    ids=["quiet", "quiet again", "never quiet"],
)
def test_a_window_that_others_disturbed_is_repeated(side_by_side, foreign, counted, repeated):
    program = side_by_side.Program(side_by_side.System("fast", 1, ()), None, Path(), 0.0)
    seen = iter(foreign)
    program.run_for = lambda settle, window: side_by_side.Window(window, 100, 1.0, next(seen), 1)
    program.look_at_memory = lambda: None
    program.measure(0.1, 0.5, repeats=2)
    assert [window.foreign_cores for window in program.windows] == [counted]
    assert program.repeated == repeated
    assert next(seen, None) is None

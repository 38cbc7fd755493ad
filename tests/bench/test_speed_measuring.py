"""`sf bench speed` on real programs: small, but through every part."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from sample_factory.bench import speed
from sample_factory.bench.__main__ import main
from sample_factory.bench.counting import claim_slot, count_family, create_counters, read_counters
from sample_factory.bench.measurement import Window, cpu_split
from sample_factory.bench.watching import Observation, Timing, TrialFailedError, _Program, watch
from sample_factory.bench.workloads import WORKLOADS
from sample_factory.config.parsing import parse_args
from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.make import make_env, make_vector_env
from sample_factory.envs.registry import temporary_registrations

QUICK = (
    "--window_sec=0.5",
    "--warmup_sec=0",
    "--envs=4",
    "--workers=1",
    "--repeats=0",
    "--flags=--rollout=8 --batch_size=256",
)


@pytest.fixture
def counters(tmp_path):
    path = tmp_path / "counters"
    create_counters(path)
    return path


def test_every_counter_has_a_place_of_its_own(counters):
    first, second = claim_slot(counters), claim_slot(counters)
    first[0] += 3
    second[0] += 4
    assert read_counters(counters).tolist() == [3, 4]


def test_an_environment_counts_its_steps_and_one_that_is_only_looked_at_does_not(counters):
    with temporary_registrations():
        cfg = parse_args(["--algo=APPO", "--env=gym_CartPole-v1"])
        count_family(cfg.env, counters)
        make_env(cfg.env, cfg, None).reset()
        env = make_env(cfg.env, cfg, EnvConfig(0, 0, 0))
        env.reset(seed=0)
        for _ in range(5):
            env.step(0)
        assert read_counters(counters).tolist() == [5]


def test_copies_that_step_as_one_are_counted_without_their_resets(counters):
    with temporary_registrations():
        cfg = parse_args(["--algo=APPO", "--env=gym_CartPole-v1", "--vectorized_envs=True"])
        count_family(cfg.env, counters)
        batch = make_vector_env(cfg.env, cfg, 2)
        batch.reset(0)
        resets = np.zeros(2, int)
        for _ in range(40):  # always to the right: the pole falls after about ten steps
            resets += batch.step(np.ones(2)).resets
        assert resets.min() > 0
        assert read_counters(counters).tolist() == (40 - resets).tolist()


@pytest.mark.processes
def test_a_training_is_measured_and_written_with_where_it_was_measured(tmp_path, capsys):
    assert main(["speed", "--workloads=cartpole", f"--results={tmp_path}", *QUICK]) == 0
    seen = json.loads((tmp_path / "training_cartpole.json").read_text())
    assert "cartpole" in capsys.readouterr().out
    assert len(seen["frames_per_sec"]["windows"]) == 3
    assert 0 < seen["frames_per_sec"]["min"] <= seen["frames_per_sec"]["median"]
    assert sum(seen["cpu_percent"].values()) == pytest.approx(100.0)
    assert seen["cpu_percent"]["learner"] > 0 and seen["cpu_percent"]["inference"] > 0
    assert seen["all_envs_advanced"] and seen["envs_advancing"] == 4
    assert seen["peak_pss_mb"] > 50
    assert seen["machine"]["usable_cores"] == len(os.sched_getaffinity(0))
    assert "--num_workers=1" in seen["command"]
    assert {"commit", "time", "bench_command", "core_us_per_step"} <= set(seen)


@pytest.mark.processes
def test_a_bare_loop_steps_as_many_environments_as_it_is_told():
    flags = WORKLOADS["cartpole"].sampling_flags(workers=1, envs=3)
    seen = watch("sample_factory.bench.bare_loop", flags, Timing(0.0, 0.3, 1), until_trained=False)
    assert seen.windows[0].steps > 0
    assert seen.envs_advancing == 3
    assert cpu_split(seen.windows, {})["environment"] > 50


@pytest.mark.processes
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="numpy has one thread on one core")
def test_a_bare_loop_ends_whichever_of_its_threads_hears_ctrl_c(counters, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")  # numpy's threads, which block no signal
    flags = WORKLOADS["cartpole"].sampling_flags(workers=1, envs=1)
    loop = subprocess.Popen([sys.executable, "-m", "sample_factory.bench.bare_loop", str(counters), *flags])
    try:
        deadline = time.monotonic() + 60
        while not read_counters(counters).any() and time.monotonic() < deadline:
            time.sleep(0.05)
        threads = {int(path.name) for path in Path(f"/proc/{loop.pid}/task").iterdir()} - {loop.pid}
        assert threads
        assert ctypes.CDLL(None).tgkill(loop.pid, threads.pop(), signal.SIGINT) == 0
        assert loop.wait(timeout=10) == 0
    finally:
        loop.kill()
        loop.wait()


def test_the_dummy_sampler_is_held_against_a_bare_loop_round_by_round(tmp_path, monkeypatch):
    steps = {"trainee": [90, 80, 76], "bare_loop": [100, 100, 80]}

    def stand_in(commands, timing, until_trained):
        for module, _ in commands:
            counts = steps[module.rpartition(".")[2]]
            windows = [Window(1.0, count, {"rollout": 1.0}, 0.0) for count in counts]
            yield Observation(windows, 1.0, 50.0, 3, 2)

    monkeypatch.setattr(speed, "watch_in_turn", stand_in)
    assert main(["speed", "--sampling", "--workloads=cartpole", f"--results={tmp_path}"]) == 0
    seen = json.loads((tmp_path / "sampling_cartpole.json").read_text())
    assert seen["ratio"] == pytest.approx({"median": 0.9, "min": 0.8, "max": 0.95})
    assert seen["cpu_ratio"] == pytest.approx(246 / 280)
    assert seen["bare_loop"]["frames_per_sec"]["windows"] == [100.0, 100.0, 80.0]


def test_a_point_of_a_sweep_that_fails_leaves_a_gap_and_the_others_count(tmp_path, monkeypatch):
    def stand_in(module, flags, timing, until_trained):
        if "--num_policies=2" in flags:
            raise TrialFailedError("no room")
        return Observation([Window(1.0, 10, {"rollout": 1.0}, 0.0)] * 3, 1.0, 50.0, 3, 64)

    monkeypatch.setattr(speed, "watch", stand_in)
    assert main(["speed", "--scaling=policies", "--values=1,2,3", f"--results={tmp_path}"]) == 0
    rows = json.loads((tmp_path / "scaling_policies_cartpole.json").read_text())["rows"]
    assert [row.get("error") for row in rows] == [None, "no room", None]


@pytest.mark.processes
def test_values_of_a_sweep_are_measured_in_turn_and_only_one_is_awake(tmp_path, monkeypatch):
    stepped_asleep = []

    class Watched(_Program):
        def pause(self):
            super().pause()
            before = read_counters(self.counters).sum()
            time.sleep(0.2)
            stepped_asleep.append(int(read_counters(self.counters).sum() - before))

    monkeypatch.setattr("sample_factory.bench.watching._Program", Watched)
    children = {child.pid for child in psutil.Process().children(recursive=True)}
    command = ["speed", "--scaling=policies", "--values=1,2", "--in_turn", f"--results={tmp_path}", *QUICK]
    assert main(command) == 0
    seen = json.loads((tmp_path / "scaling_policies_cartpole.json").read_text())
    assert seen["in_turn"]
    assert all(len(row["frames_per_sec"]["windows"]) == 3 for row in seen["rows"])
    assert all(min(row["frames_per_sec"]["windows"]) > 0 for row in seen["rows"])
    assert stepped_asleep == [0] * 10  # each after its start, its warm-up and its three windows
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= children


@pytest.mark.processes
def test_a_sampler_and_its_bare_loop_are_measured_one_after_the_other(tmp_path):
    assert main(["speed", "--sampling", "--workloads=cartpole", f"--results={tmp_path}", *QUICK[:-1]]) == 0
    seen = json.loads((tmp_path / "sampling_cartpole.json").read_text())
    for title in ("dummy_sampler", "bare_loop"):
        assert min(seen[title]["frames_per_sec"]["windows"]) > 0
        assert seen[title]["cores_used"] < 1.5  # of the one loop that each has


@pytest.mark.parametrize(
    ("foreign", "num_repeats", "counted"),
    [([0.1], 2, 0.1), ([0.9, 0.3, 0.5], 2, 0.3), ([0.9, 0.0], 2, 0.0), ([0.9], 0, 0.9)],
)
def test_a_disturbed_window_is_repeated_and_the_quietest_one_counts(foreign, num_repeats, counted):
    class Disturbed(_Program):
        def __init__(self):
            self.left = list(foreign)

        def observe_awake(self, window_sec):
            return Window(window_sec, 1, {}, self.left.pop(0)), 1

    program = Disturbed()
    window, _ = program.observe_quietly(Timing(0.0, 1.0, 3, num_repeats))
    assert window.foreign_cores == counted
    assert program.left == []


@pytest.mark.processes
def test_a_program_that_fails_is_reported_with_its_last_lines_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    flags = ["--algo=APPO", "--env=gym_CartPole-v1", "--rollout=3", "--recurrence=2", "--experiment=speed"]
    with pytest.raises(TrialFailedError, match="--recurrence"):
        watch("sample_factory.bench.trainee", flags, Timing(0, 1, 3), until_trained=True)
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_being_told_to_leave_ends_the_measured_program_and_removes_its_files(tmp_path, number):
    command = [sys.executable, "-m", "sample_factory.bench", "speed", "--workloads=cartpole"]
    measuring = psutil.Popen(command, cwd=tmp_path, env=os.environ | {"TMPDIR": str(tmp_path)})
    try:
        deadline = time.monotonic() + 60.0
        # The program's own fork server is there: it has really begun.
        while len(measuring.children(recursive=True)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        trainee = measuring.children()[0]
        measuring.send_signal(number)
        assert measuring.wait(60.0) == 2
        assert not trainee.is_running()
        assert not list(tmp_path.glob("sf_speed_*"))
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            measuring.kill()


@pytest.mark.parametrize("argument", ["--workloads=chess", "--windows=2", "--in_turn"])
def test_a_wrong_argument_is_one_sentence(argument, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["speed", argument])
    assert ended.value.code == 2
    assert argument in capsys.readouterr().err


def test_an_unknown_measurement_names_the_known_ones(capsys):
    assert main(["sped"]) == 2
    assert "speed" in capsys.readouterr().err

"""The dummy sampler: flags, report, limits, ends."""

import re

import numpy as np
import pytest

from sample_factory.algorithms.dummy_sampler.sampler import report_line
from sample_factory.algorithms.dummy_sampler.worker import SamplerWorker, Score, Waiting
from sample_factory.config.parsing import parse_args
from sample_factory.envs.vector import ObsRows, SingleAgentVector
from sample_factory.processes.one_time_event import OneTimeEvent
from sample_factory.processes.shared_memory import ArraySpec, SharedArrays
from sample_factory.run_algorithm import run_algorithm
from tests.doubles import CountingEnv

DOCUMENTED = (
    "--algo=DUMMY_SAMPLER --env=doom_benchmark --num_workers=20 --num_envs_per_worker=1 "
    "--experiment=dummy_sampler --sample_env_frames=5000000"
)


def numbers_of(num_workers):
    return SharedArrays({"frames": ArraySpec((num_workers,), "int64")})


def worker_of(numbers, limit=10**9, started=True):
    vector = SingleAgentVector([CountingEnv(), CountingEnv()], [0, 1])
    rows = ObsRows({"obs": np.zeros((2, 1, 1), np.float32)}, np.arange(2))
    vector.reset(rows)
    start = OneTimeEvent()
    if started:
        start.set()
    waiting = Waiting(start, rest=lambda seconds: None)
    return SamplerWorker(vector, [[0, 1], [1, 0]], rows, Score(numbers, 1, limit), waiting)


def test_the_documented_command_line_is_understood():
    cfg = parse_args(DOCUMENTED.split())
    assert (cfg.num_workers, cfg.num_envs_per_worker, cfg.sample_env_frames) == (20, 1, 5_000_000)


def test_nobody_steps_before_the_common_start():
    numbers = numbers_of(2)
    worker_of(numbers, started=False).poll(timeout=0.0)
    assert numbers["frames"].tolist() == [0, 0]


def test_a_worker_counts_its_frames_in_its_own_place():
    numbers = numbers_of(2)
    worker_of(numbers).poll(timeout=0.0)
    assert numbers["frames"].tolist() == [0, 100]


def test_a_worker_rests_when_its_share_is_done():
    numbers = numbers_of(2)
    worker = worker_of(numbers, limit=150)
    for _ in range(5):
        worker.poll(timeout=0.0)
    assert numbers["frames"].tolist() == [0, 200]


def test_every_second_the_speed_over_five_windows_is_reported():
    history = [(float(second), 1000 * second) for second in range(0, 21)]
    history.append((21.0, 25_000))
    assert report_line(history) == (
        "FPS (1 sec: 5000.0, 10 sec: 1400.0, 60 sec: 1190.5, 300 sec: 1190.5, 600 sec: 1190.5). "
        "Total frames: 25000"
    )


@pytest.mark.processes
def test_a_run_ends_with_the_average_and_writes_no_configuration(tmp_path):
    flags = "--algo=DUMMY_SAMPLER --env=gym_CartPole-v1 --num_workers=2 --experiment=ceiling"
    arguments = [*flags.split(), "--sample_env_frames=20000", f"--train_dir={tmp_path}"]
    assert run_algorithm(parse_args(arguments)) == 0
    text = (tmp_path / "ceiling" / "sf_log.txt").read_text()
    total, average = re.search(r"Sampled (\d+) frames in [\d.]+ s, avg FPS: ([\d.]+)", text).groups()
    assert int(total) >= 20_000 and float(average) > 0
    assert not (tmp_path / "ceiling" / "cfg.json").exists()


@pytest.mark.processes
def test_an_environment_that_does_not_exist_is_one_sentence(tmp_path, capsys):
    arguments = ["--algo=DUMMY_SAMPLER", "--env=gym_CartPool-v1", f"--train_dir={tmp_path}"]
    with pytest.raises(SystemExit) as ended:
        run_algorithm(parse_args(arguments))
    assert ended.value.code == 2
    assert "did you mean --env=gym_CartPole-v1?" in capsys.readouterr().err

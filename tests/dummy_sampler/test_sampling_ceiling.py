"""The dummy sampler: flags, report, limits, ends."""

import re
from typing import ClassVar

import numpy as np
import pytest

from sample_factory.algorithms.appo.user_code import UserCode
from sample_factory.algorithms.dummy_sampler.sampler import report_line
from sample_factory.algorithms.dummy_sampler.worker import (
    SamplerWorker,
    SamplerWorkerBuilder,
    Score,
    Waiting,
)
from sample_factory.bench import bare_loop
from sample_factory.config.parsing import parse_args
from sample_factory.envs.registry import register_env, temporary_registrations
from sample_factory.envs.vector import ObsRows, SingleAgentVector
from sample_factory.processes.one_time_event import OneTimeEvent
from sample_factory.processes.shared_memory import ArraySpec, SharedArrays
from sample_factory.processes.worker import WorkerContext
from sample_factory.run_algorithm import run_algorithm
from tests.doubles import CountingEnv

DOCUMENTED = (
    "--algo=DUMMY_SAMPLER --env=doom_benchmark --num_workers=20 --num_envs_per_worker=1 "
    "--experiment=dummy_sampler --sample_env_frames=5000000"
)


class Recorded(CountingEnv):
    """Writes down what it is asked to do, and has had enough after the hundredth step of all of them."""

    played: ClassVar[list[tuple[int, object]]] = []

    def __init__(self, number):
        super().__init__()
        self.number = number

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.played.append((self.number, f"seed {seed}"))
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if len(self.played) > 100:
            raise StopIteration
        self.played.append((self.number, int(action)))
        return super().step(action)


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


def test_the_bare_loop_plays_the_same_episodes_as_the_sampler(monkeypatch):
    start = OneTimeEvent()
    start.set()

    def play_as_the_sampler_does(cfg, index):
        build = SamplerWorkerBuilder(cfg, UserCode.capture(), numbers_of(3), start, index)
        build(WorkerContext("sampler", reporter=None, beat=lambda: None)).poll(timeout=0.0)

    records = []
    with temporary_registrations():
        register_env("recorded", lambda name, cfg, env_config: Recorded(env_config.env_id))
        shape = ["--num_workers=3", "--num_envs_per_worker=3"]
        cfg = parse_args(["--algo=DUMMY_SAMPLER", "--env=recorded", *shape])
        for play in (play_as_the_sampler_does, bare_loop.play):
            monkeypatch.setattr(Recorded, "played", [])
            with pytest.raises(StopIteration):
                play(cfg, 2)
            records.append(Recorded.played)
    start.close()
    assert records[0] == records[1]
    assert {(6, "seed 6"), (7, "seed 7"), (8, "seed 8"), (6, 0), (6, 1)} <= set(records[0])


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

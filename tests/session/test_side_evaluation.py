"""Evaluation beside training: it measures, keeps the best, disturbs nothing, and may die."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from sample_factory.algorithms.appo.evaluator import Evaluator
from sample_factory.algorithms.appo.exits import ExitStatus
from sample_factory.algorithms.appo.side_evaluation import NAME, SideEvaluation
from sample_factory.config.config import Config
from sample_factory.envs.make import make_env
from sample_factory.envs.observations import observation_dict_space
from sample_factory.envs.registry import register_env
from sample_factory.model.actor_critic import make_actor_critic
from sample_factory.model.checkpoints import CheckpointStore
from sample_factory.monitoring.reports import EvaluationReport
from sample_factory.processes.channels import LocalReporter
from sample_factory.processes.fork_server import stop_fork_server
from tests.evaluation.paying import PayingEnv
from tests.session.running import (
    FEED_FORWARD,
    child_pids,
    command_line,
    config,
    log_text,
    metric,
    same_weights,
    train_serially,
    weights,
)

EVAL = ("--eval_every_env_steps=200", "--eval_env_episodes=3", "--eval_num_envs=2", "--save_best_after=0")


@pytest.fixture
def cfg(tmp_path: Path) -> Config:
    register_env("paying", lambda *args, **kwargs: PayingEnv())
    return config(tmp_path, "paying", *FEED_FORWARD, *EVAL, "--eval_deterministic=True")


@pytest.fixture
def save(cfg: Config, tmp_path: Path) -> Any:
    """Writes a checkpoint of a policy that always takes the given action."""
    env = make_env(cfg.env, cfg, None)
    model = make_actor_critic(cfg, observation_dict_space(env), env.action_space)
    store = CheckpointStore(tmp_path / "experiment/checkpoint_p0")

    def write(action: int, env_steps: int) -> None:
        with torch.no_grad():
            model.action_head.linear.weight.zero_()
            model.action_head.linear.bias.zero_()
            model.action_head.linear.bias[action] = 10.0
        store.save(
            {"model": model.state_dict(), "mark": action}, policy_version=env_steps, env_steps=env_steps
        )

    return write


class Watched:
    """An evaluator with its reports."""

    def __init__(self, cfg: Config, directory: Path) -> None:
        self.reporter = LocalReporter()
        self.evaluator = Evaluator(cfg, directory, self.reporter, look_sec=0.0)

    def results(self) -> list[tuple[int, float]]:
        while self.evaluator.work(60.0):
            pass
        return [(report.env_steps, report.scalars["reward"]) for report in self.reporter.drain()]


def test_a_checkpoint_is_played_when_enough_frames_have_passed(cfg, save, tmp_path):
    watched = Watched(cfg, tmp_path / "experiment")
    save(1, env_steps=150)
    assert watched.results() == []
    save(1, env_steps=210)
    assert watched.results() == [(210, 6.0)]
    save(2, env_steps=390)
    assert watched.results() == []
    save(2, env_steps=400)
    assert watched.results() == [(400, 12.0)]


def test_the_best_checkpoint_holds_what_was_evaluated(cfg, save, tmp_path):
    watched = Watched(cfg, tmp_path / "experiment")
    for action, env_steps in ((1, 200), (2, 400), (0, 600)):
        save(action, env_steps)
        watched.results()
    store = CheckpointStore(tmp_path / "experiment/checkpoint_p0")
    (file,) = store.best_checkpoints()
    assert file.path.name == "best_000000400_400_eval_reward_12.000.pth"
    best = store.load_best()
    assert (best.best_value, best.state["mark"]) == (12.0, 2)


def test_a_later_session_remembers_the_best(cfg, save, tmp_path):
    save(2, 200)
    CheckpointStore(tmp_path / "experiment/checkpoint_p0").save_best(
        {"model": {}}, policy_version=1, env_steps=1, metric="reward", value=99.0
    )
    watched = Watched(cfg, tmp_path / "experiment")  # 99 was a training reward, which does not compare
    save(2, 400)
    watched.results()
    again = Watched(cfg, tmp_path / "experiment")
    save(1, 600)
    assert again.results() == [(600, 6.0)]
    assert CheckpointStore(tmp_path / "experiment/checkpoint_p0").load_best().policy_version == 400


def test_training_turned_back_is_evaluated_again(cfg, save, tmp_path):
    save(2, 1000)
    watched = Watched(cfg, tmp_path / "experiment")
    save(1, 600)  # sets the later one aside
    assert watched.results() == [(600, 6.0)]


def test_a_serial_session_evaluates_and_trains_as_without(tmp_path: Path):
    flags = (*FEED_FORWARD, "--seed=3", "--train_for_env_steps=700")
    train_serially(tmp_path, "gym_CartPole-v1", *flags, experiment="without")
    assert train_serially(tmp_path, "gym_CartPole-v1", *flags, *EVAL, experiment="with") is ExitStatus.SUCCESS
    assert len(metric(tmp_path, "eval/reward", "with")) == 3
    assert metric(tmp_path, "eval/episodes", "with") == [3.0] * 3
    assert metric(tmp_path, "eval/reward", "without") == []
    assert same_weights(weights(tmp_path, "with"), weights(tmp_path, "without"))
    rewards = metric(tmp_path, "eval/reward", "with")
    best = CheckpointStore(tmp_path / "with/checkpoint_p0").load_best()
    assert best.best_value == pytest.approx(max(rewards))


class RefusingEnv(PayingEnv):
    """Works for rollout workers, not for the evaluator."""

    def __init__(self, env_config: Any) -> None:
        super().__init__()
        if env_config is not None and env_config.worker_index >= 2:
            raise RuntimeError("no room for an evaluator")


def test_an_evaluation_that_fails_does_not_end_a_serial_session(tmp_path: Path):
    register_env("refusing", lambda name, cfg, env_config, render_mode=None: RefusingEnv(env_config))
    flags = (*FEED_FORWARD, *EVAL, "--train_for_env_steps=500")
    assert train_serially(tmp_path, "refusing", *flags) is ExitStatus.SUCCESS
    assert "training goes on without it" in log_text(tmp_path)


@pytest.fixture
def side(cfg: Config, tmp_path: Path) -> Iterator[tuple[SideEvaluation, Any]]:
    """An evaluator process, with a board that no learner writes."""
    cfg.max_worker_restarts = 1
    board = SimpleNamespace(env_steps=np.zeros(1, np.int64), save_requests=np.zeros(1, np.int64))
    before = child_pids()
    evaluation = SideEvaluation(cfg, board, tmp_path / "experiment")
    evaluation.start()
    yield evaluation, board
    evaluation.stop(10.0)
    stop_fork_server()
    assert not child_pids() - before


def wait_for(evaluation: SideEvaluation, condition: Any, seconds: float = 120.0) -> list[EvaluationReport]:
    reports: list[EvaluationReport] = []
    deadline = time.monotonic() + seconds
    while not condition(reports):
        assert time.monotonic() < deadline
        reports += evaluation.poll()
        time.sleep(0.02)
    return reports


@pytest.mark.processes
def test_the_process_is_humble_measures_and_is_replaced_until_it_has_died_too_often(side, save):
    evaluation, board = side
    supervisor = evaluation._supervisor
    wait_for(evaluation, lambda _: supervisor.all_started())
    assert psutil.Process(supervisor.pids()[NAME]).nice() == 19
    board.env_steps[0] = 230
    list(evaluation.poll())
    assert board.save_requests.tolist() == [1]  # a learner is asked for a checkpoint, once
    board.env_steps[0] = 500
    list(evaluation.poll())
    assert board.save_requests.tolist() == [1]
    save(2, env_steps=240)
    (report,) = wait_for(evaluation, lambda reports: reports)
    assert (report.env_steps, report.scalars["reward"]) == (240, 12.0)
    list(evaluation.poll())
    assert board.save_requests.tolist() == [2]
    os.kill(supervisor.pids()[NAME], signal.SIGKILL)
    wait_for(evaluation, lambda _: supervisor._workers[NAME].deaths == 1)
    wait_for(evaluation, lambda _: supervisor.all_started() and supervisor.pids())
    os.kill(supervisor.pids()[NAME], signal.SIGKILL)
    wait_for(evaluation, lambda _: evaluation._supervisor is None)
    assert list(evaluation.poll()) == []  # off, and nobody minds


@pytest.mark.processes
def test_a_training_program_evaluates_beside_training_and_leaves_nothing(start_program, tmp_path: Path):
    flags = command_line(tmp_path, "gym_CartPole-v1", *FEED_FORWARD, *EVAL, "--train_for_env_steps=100000000")
    program = start_program(*flags)
    program.wait_until(lambda: "Evaluation of policy 0" in program.output, "evaluation", 120.0)
    program.signal_group(signal.SIGINT)
    assert program.wait() == ExitStatus.INTERRUPTED
    program.assert_nothing_left()
    assert metric(tmp_path, "eval/reward")
    assert CheckpointStore(tmp_path / "experiment/checkpoint_p0").load_best() is not None

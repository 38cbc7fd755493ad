"""Scoring: a finished run's policy is played and its record gets the score."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from sample_factory.benchmark import scoring
from sample_factory.benchmark.runs import find_runs
from sample_factory.benchmark.scoring import Options, random_score, score_run
from sample_factory.benchmark.suite_run import needs_score, run_scoring
from sample_factory.config.config import experiment_dir
from sample_factory.config.experiment_files import save_cfg
from sample_factory.config.parsing import parse_args
from sample_factory.envs.make import make_env
from sample_factory.envs.observations import observation_dict_space
from sample_factory.envs.registry import register_env, temporary_registrations
from sample_factory.model.actor_critic import make_actor_critic
from sample_factory.model.checkpoints import CheckpointStore
from tests.benchmark.run_folders import write_curve
from tests.doubles import CountingEnv
from tests.evaluation.paying import make_paying_env

ACTION = 2  # what the made-up policy always does; the environment pays it in each of 6 frames
RETURN = 12.0
TRUE_REWARD = 60.0  # what that environment ranks by


class CoinEnv(CountingEnv):
    """Pays the action, 0 or 1, ten times."""

    def step(self, action: Any) -> Any:
        obs, _, terminated, truncated, info = super().step(action)
        return obs, float(action), terminated, truncated, info


@pytest.fixture(autouse=True)
def environments() -> Iterator[None]:
    with temporary_registrations():
        register_env("paying", make_paying_env)
        register_env("coin", lambda name, cfg=None, env_config=None: CoinEnv())
        yield


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """An experiment as training leaves it, before there were run records."""
    flags = ["--env=paying", "--experiment=exp", f"--train_dir={tmp_path}", "--seed=3", "--use_rnn=False"]
    network = ["--encoder_type=mlp", "--encoder_subtype=mlp_mujoco", "--hidden_size=8", "--recurrence=1"]
    cfg = parse_args([*flags, *network, "--with_vtrace=False"])
    env = make_env(cfg.env, cfg, None)
    model = make_actor_critic(cfg, observation_dict_space(env), env.action_space)
    with torch.no_grad():
        model.action_head.linear.weight.zero_()
        model.action_head.linear.bias.zero_()
        model.action_head.linear.bias[ACTION] = 100.0
    save_cfg(cfg)
    directory = experiment_dir(cfg)
    store = CheckpointStore(directory / "checkpoint_p0")
    store.save({"model": model.state_dict()}, policy_version=5, env_steps=320)
    write_curve(directory, [(320, 0.0, 1.0)])
    (directory / "done").touch()
    return directory


def test_the_score_is_the_true_reward_of_the_policy(experiment: Path) -> None:
    assert score_run(experiment, Options(episodes=3)) == TRUE_REWARD
    (run,) = find_runs([experiment]).runs
    assert (run.score, run.score_source, run.episodes) == (TRUE_REWARD, "eval", 3)
    assert (run.algo, run.env, run.seed, run.status) == ("APPO", "paying", 3, "COMPLETED")


def test_every_episode_is_written_down(experiment: Path) -> None:
    score_run(experiment, Options(episodes=3))
    with (experiment / "eval" / "final" / "episodes.csv").open() as file:
        rows = [(float(row["reward"]), float(row["true_reward"])) for row in csv.DictReader(file)]
    assert rows == [(RETURN, TRUE_REWARD)] * 3


def test_a_record_of_the_training_is_kept(experiment: Path) -> None:
    (experiment / "run.json").write_text(
        json.dumps({"command": "mine", "status": "COMPLETED", "artifacts": []})
    )
    score_run(experiment, Options(episodes=1))
    record = json.loads((experiment / "run.json").read_text())
    assert (record["command"], record["result"]["score_source"]) == ("mine", "eval")


def test_a_scored_run_needs_no_score(experiment: Path) -> None:
    assert needs_score(experiment)
    score_run(experiment, Options(episodes=1))
    assert not needs_score(experiment)


def test_a_random_policy_acts_at_random_and_repeatably() -> None:
    first, second = (random_score("coin", Options(episodes=8, seed=1)) for _ in range(2))
    assert 2.0 < first < 8.0
    assert first == second


def test_a_run_without_a_checkpoint_is_one_sentence(
    experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (experiment / "checkpoint_p0").iterdir():
        path.unlink()
    assert scoring.main([str(experiment)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: There is no latest checkpoint") and error.count("\n") == 1


@pytest.mark.processes
def test_a_scoring_process_answers_with_the_score() -> None:
    answer = run_scoring(["--random=gym_CartPole-v1", "--episodes=5"], {})
    assert answer.score is not None and 8.0 <= answer.score <= 200.0


@pytest.mark.processes
def test_a_scoring_process_that_fails_says_why() -> None:
    answer = run_scoring(["--random=no_such_env", "--episodes=5"], {})
    assert answer.score is None
    assert "no_such_env" in answer.error

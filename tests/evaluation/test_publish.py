import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

from sample_factory.config.config import experiment_dir
from sample_factory.envs.registry import MissingPackageError
from sample_factory.evaluation import publish as publishing
from sample_factory.evaluation.command_line import experiment_cfg
from sample_factory.evaluation.evaluate import Programme
from sample_factory.evaluation.policy import load_policy
from sample_factory.evaluation.publish import RESULT_FILE, main, published
from sample_factory.evaluation.workers import Job, play
from sample_factory.model.checkpoints import CheckpointStore
from sample_factory.monitoring.metrics import append_metrics

TRAINED_POLICIES = Path(__file__).resolve().parents[2] / "trained_policies"


@pytest.fixture
def one_core(monkeypatch):
    monkeypatch.setattr(publishing, "available_cores", lambda: [0])


@pytest.fixture
def experiment(train, one_core):
    cfg = train(action=2)
    directory = experiment_dir(cfg)
    for env_steps in (100, 200):
        append_metrics(
            directory / "metrics.jsonl",
            {"policy": 0, "env_steps": env_steps, "0_aux/avg_reward": env_steps / 100},
        )
    store = CheckpointStore(directory / "checkpoint_p0")
    state = {"model": store.load_latest().state["model"], "optimizer": {"large": np.zeros(9).tolist()}}
    store.save(state, policy_version=7, env_steps=400)
    return directory


@pytest.fixture
def publish(experiment, tmp_path):
    def run(name, *flags):
        folder = tmp_path / "trained_policies"
        status = main([f"--model_path={experiment}", f"--name={name}", f"--folder={folder}", *flags])
        return status, folder / name

    return run


def test_a_published_policy_has_its_score_and_a_random_one(publish):
    status, directory = publish("payer", "--episodes=6")
    result = json.loads((directory / RESULT_FILE).read_text())
    assert status == 0
    assert (result["score"], result["score_std"], result["episodes"]) == (60.0, 0.0, 6)
    assert (result["env"], result["policy_version"], result["env_steps"]) == ("paying", 7, 400)
    assert result["random_score"] == 60.0  # the true reward of this environment is the length
    assert len(list(csv.DictReader((directory / "episodes.csv").open()))) == 6


def test_a_published_policy_plays_without_its_experiment(publish, experiment, tmp_path):
    _, directory = publish("payer", "--episodes=2")
    os.rename(experiment, tmp_path / "gone")
    action, _ = load_policy(directory).act(np.zeros(1))
    assert action == 2
    episodes = play(Job(experiment_cfg(directory), Programme(3)))
    assert [episode.reward for episode in episodes] == [12.0] * 3


def test_weights_alone_are_published(publish):
    _, directory = publish("payer", "--episodes=2")
    state = CheckpointStore(directory / "checkpoint_p0").load_latest().state
    assert set(state) == {"model", "train_step", "env_steps"}


def test_nothing_tells_where_the_files_were(publish, tmp_path):
    _, directory = publish("payer", "--episodes=2")
    for path in directory.rglob("*"):
        assert path.is_dir() or str(tmp_path).encode() not in path.read_bytes(), path
    assert "git_repo_name" not in json.loads((directory / "cfg.json").read_text())
    command = json.loads((directory / RESULT_FILE).read_text())["command"]
    assert command.startswith("python -m sample_factory.algorithms.appo.train_appo --algo=APPO --env=paying ")
    assert "--encoder_type=mlp" in command


def test_the_curve_is_published(publish):
    pytest.importorskip("matplotlib")
    _, directory = publish("payer", "--episodes=2")
    assert (directory / "curve.csv").read_text().splitlines() == [
        "env_steps,mean_episode_reward",
        "100,1.0",
        "200,2.0",
    ]
    assert (directory / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_lists_every_policy_and_keeps_other_text(publish):
    _, directory = publish("first", "--episodes=2")
    readme = directory.parent / "README.md"
    readme.write_text(readme.read_text() + "\nA word of our own.\n")
    publish("second", "--episodes=2")
    text = readme.read_text()
    assert "| [first](first) | `paying` | 60.00 ± 0.00 | 60.00 ± 0.00 | 400 | 2 |" in text
    assert text.count("| [first](first)") == text.count("| [second](second)") == 1
    assert text.endswith("\nA word of our own.\n")


def test_a_name_that_is_taken_is_refused(publish, capsys):
    publish("payer", "--episodes=2")
    capsys.readouterr()
    assert publish("payer", "--episodes=2")[0] == 1
    assert "payer exists; choose another --name" in capsys.readouterr().err


@pytest.mark.parametrize("result", published(TRAINED_POLICIES), ids=lambda result: result["name"])
def test_a_trained_policy_reaches_its_published_score(result):
    count = result["replay_episodes"]
    flags = (f"--eval_deterministic={result['deterministic']}", "--device=cpu")
    cfg = experiment_cfg(TRAINED_POLICIES / result["name"], *flags)
    try:
        episodes = play(Job(cfg, Programme(count, num_envs=count, seed=result["seed"])))
    except MissingPackageError as error:
        pytest.skip(str(error))
    score = np.mean([episode.true_reward for episode in episodes])
    # Four standard errors of a mean of so few, and a little for policies that never vary.
    tolerance = 4 * result["score_std"] / np.sqrt(count) + 0.02 * abs(result["score"])
    assert abs(score - result["score"]) <= tolerance
    assert score > result["random_score"]

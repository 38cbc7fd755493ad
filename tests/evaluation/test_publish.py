import csv
import json
import os
import shlex

import numpy as np
import pytest
import torch

from sample_factory.config.config import experiment_dir
from sample_factory.evaluation import publish as publishing
from sample_factory.evaluation.command_line import experiment_cfg
from sample_factory.evaluation.evaluate import Programme
from sample_factory.evaluation.policy import load_policy
from sample_factory.evaluation.publish import main
from sample_factory.evaluation.published import RESULT_FILE, TABLE_END, TABLE_START, outdated_tables
from sample_factory.evaluation.workers import Job, play
from sample_factory.model.checkpoints import CheckpointStore
from sample_factory.monitoring.metrics import append_metrics


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
            {"time": 1.0, "policy": 0, "env_steps": env_steps, "0_aux/avg_reward": env_steps / 100},
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


def test_nothing_tells_where_the_files_were(publish, experiment, tmp_path):
    cfg = json.loads((experiment / "cfg.json").read_text())
    cfg |= {"dmlab_level_cache_path": f"{tmp_path}/cache", "extra_files": [f"{tmp_path}/a", "b"]}
    cfg |= {"git_repo_name": "git@example.org:me/mine.git", "wandb_user": "somebody"}
    cfg["command_line"] += f" --record_to recordings --wandb_user=somebody --cfg_file={tmp_path}/tuned.json"
    (experiment / "cfg.json").write_text(json.dumps(cfg))
    _, directory = publish("payer", "--episodes=2")
    for path in (path for path in directory.rglob("*") if path.is_file()):
        for trace in (str(tmp_path), "example.org", "somebody"):
            assert trace.encode() not in path.read_bytes(), path
    published = json.loads((directory / "cfg.json").read_text())
    assert not {"train_dir", "record_to", "git_repo_name", "extra_files"} & set(published)
    assert (published["env"], published["hidden_size"]) == ("paying", 8)


def test_the_command_is_the_one_that_was_typed(publish, experiment):
    _, directory = publish("payer", "--episodes=2")
    command = json.loads((directory / RESULT_FILE).read_text())["command"]
    assert command.startswith("python -m sample_factory.algorithms.appo.train_appo --algo=APPO --env=paying ")
    typed = json.loads((experiment / "cfg.json").read_text())["command_line"]
    kept = [word for word in shlex.split(typed) if not word.startswith("--train_dir=")]
    assert shlex.split(command)[3:] == kept


def test_a_published_policy_can_be_published_again(publish):
    _, first = publish("payer", "--episodes=2")
    _, second = publish("again", "--episodes=2", f"--model_path={first}")
    assert (
        json.loads((second / RESULT_FILE).read_text())["command"]
        == (json.loads((first / RESULT_FILE).read_text())["command"])
    )


def test_half_precision_is_for_storage_only(publish, experiment):
    _, directory = publish("payer", "--episodes=2", "--weights=float16")
    full = CheckpointStore(experiment / "checkpoint_p0").load_latest().state["model"]
    half = CheckpointStore(directory / "checkpoint_p0").load_latest().state["model"]
    weight = "action_head.linear.bias"
    assert (half[weight].dtype, full[weight].dtype) == (torch.float16, torch.float32)
    assert torch.equal(half[weight].float(), full[weight])  # 100 and 0 are exact in float16
    assert load_policy(directory).step({"obs": np.zeros((1, 1), np.float32)}).values.dtype == np.float32
    assert json.loads((directory / RESULT_FILE).read_text())["weights"] == "float16"


def test_weights_are_halved_when_they_would_be_large(publish, monkeypatch):
    _, small = publish("small", "--episodes=2")
    monkeypatch.setattr(publishing, "LARGE_MB", 0.001)
    _, large = publish("large", "--episodes=2")
    stored = [json.loads((directory / RESULT_FILE).read_text())["weights"] for directory in (small, large)]
    assert stored == ["float32", "float16"]


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
    assert "| [first](first) | `paying` | 60.00 ± 0.00 | 60.00 ± 0.00 | 400 | 2 | float32 |" in text
    assert text.count("| [first](first)") == text.count("| [second](second)") == 1
    assert text.endswith("\nA word of our own.\n")


def test_the_readme_above_has_the_same_scores_if_it_has_a_place_for_them(publish, tmp_path):
    above = tmp_path / "README.md"
    above.write_text(f"# Project\n\n{TABLE_START}\n{TABLE_END}\n\nMore.\n")
    _, directory = publish("payer", "--episodes=2")
    row = "| [payer](trained_policies/payer) | `paying` | 60.00 ± 0.00 | 60.00 ± 0.00 | 400 | 2 | float32 |"
    text = above.read_text()
    assert row in text
    assert "train_appo" not in text
    assert text.startswith("# Project\n") and text.endswith("\n\nMore.\n")
    assert outdated_tables(directory.parent) == []


def test_a_table_that_disagrees_with_the_results_is_noticed(publish):
    _, directory = publish("payer", "--episodes=2")
    readme = directory.parent / "README.md"
    readme.write_text(readme.read_text().replace("60.00 ± 0.00 | 60.00", "61.00 ± 0.00 | 60.00"))
    assert outdated_tables(directory.parent) == [readme]


def test_a_name_that_is_taken_is_refused(publish, capsys):
    publish("payer", "--episodes=2")
    capsys.readouterr()
    assert publish("payer", "--episodes=2")[0] == 1
    assert "payer exists; choose another --name" in capsys.readouterr().err

"""What the guide tells people to type works, on a CartPole policy that always pushes to the right."""

import json
import re
import shlex
from pathlib import Path

import pytest

from sample_factory import cli
from sample_factory.algorithms.appo import enjoy_appo
from sample_factory.config.parsing import parse_args
from sample_factory.evaluation import campaign, publish

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "evaluation.md").read_text().replace("\\\n", " ")
COMMANDS = [
    line for block in re.findall(r"```bash\n(.*?)```", GUIDE, re.DOTALL) for line in block.splitlines()
]


@pytest.fixture
def cartpole(train, tmp_path, monkeypatch):
    place = f"--train_dir={tmp_path / 'train_dir'}"
    train("--env=gym_CartPole-v1", "--experiment=cartpole", place, action=1)
    monkeypatch.chdir(tmp_path)
    for module in (campaign, publish):
        monkeypatch.setattr(module, "available_cores", lambda: [0])
    return tmp_path


def command_with(word):
    (found,) = [line for line in COMMANDS if word in line]
    return shlex.split(found)


def test_the_program_runs(cartpole):
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names = {}
    exec(program, names)
    assert names["done"] is True
    assert names["action"] == 1


def test_a_policy_is_scored_as_the_guide_says(cartpole, capsys):
    assert cli.main(["evaluate", *command_with("sample_factory.evaluate")[3:]]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["n_traj"] == 100
    assert 8 <= summary["len_mean"] <= 11


def test_a_policy_is_exported_as_the_guide_says(cartpole):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    assert cli.main(command_with("sf export")[1:]) == 0
    assert (cartpole / "train_dir/cartpole/policy.onnx").exists()


def test_a_policy_is_published_as_the_guide_says(cartpole):
    assert cli.main(command_with("sf publish")[1:]) == 0
    result = json.loads((cartpole / "trained_policies/cartpole/result.json").read_text())
    assert (result["episodes"], result["deterministic"]) == (100, True)
    assert enjoy_appo.main(["--model_path=cartpole", "--no_render", "--max_num_episodes=1"]) == 0


def test_the_command_for_watching_parses():
    argv = command_with("enjoy_appo")[3:]
    assert parse_args(argv, evaluation=True).fps == 35

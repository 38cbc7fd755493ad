"""The example scripts train and play, started as the README of the examples says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.session.running import ROOT

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SHOWN = "custom_env_custom_model"  # the others take the same way
TRAINING = {
    "custom_env_custom_model": (
        "my_custom_env_v1",
        ["--train_for_env_steps=10000", "--hidden_size=32", "--custom_env_episode_len=100"],
    ),
    "custom_multi_env": ("my_custom_multi_env_v1", ["--train_for_env_steps=5000", "--num_policies=2"]),
    "gym_env": (
        "gym_CartPole-v1",
        [
            "--train_for_env_steps=10000",
            "--encoder_type=mlp",
            "--encoder_subtype=mlp_mujoco",
            "--use_rnn=False",
        ],
    ),
}


def run(script: str, *flags: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", f"sample_factory_examples.{script}", *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.parametrize(
    "name", [n if n == SHOWN else pytest.param(n, marks=pytest.mark.long) for n in TRAINING]
)
def test_an_example_trains_and_then_plays(tmp_path: Path, name: str):
    env, flags = TRAINING[name]
    place = ["--algo=APPO", f"--env={env}", f"--train_dir={tmp_path}", "--experiment=example", "--device=cpu"]
    small = ["--num_workers=2", "--num_envs_per_worker=8", "--batch_size=512", "--progress=plain"]
    small += ["--decorrelate_experience_max_seconds=0", "--decorrelate_envs_on_one_worker=False"]
    trained = run(f"train_{name}", *place, *small, *flags)
    assert trained.returncode == 0, trained.stderr[-2000:]
    assert re.search(r"Collected \{0: \d+", trained.stderr)
    own = [flag for flag in flags if flag.startswith("--custom")]
    played = run(f"enjoy_{name}", *place, *own, "--no_render", "--max_num_episodes=4")
    assert played.returncode == 0, played.stderr[-2000:]
    assert "reward" in played.stderr


@pytest.mark.long
def test_the_custom_environment_is_learned(tmp_path: Path):
    # Its reward is 0.01 times the action, 0 to 9, over 50 steps: guessing gets 2.25, the best is 4.5.
    flags = ["--algo=APPO", "--env=my_custom_env_v1", f"--train_dir={tmp_path}", "--experiment=example"]
    flags += [
        "--device=cpu",
        "--num_workers=2",
        "--num_envs_per_worker=8",
        "--batch_size=512",
        "--ppo_epochs=4",
    ]
    flags += [
        "--custom_env_episode_len=50",
        "--train_for_env_steps=60000",
        "--learning_rate=0.001",
        "--seed=1",
    ]
    flags += ["--decorrelate_experience_max_seconds=0", "--hidden_size=32", "--progress=plain"]
    trained = run("train_custom_env_custom_model", *flags)
    assert trained.returncode == 0, trained.stderr[-2000:]
    rewards = re.findall(r"Avg episode reward: \[\(0, '([\d.]+)'\)\]", trained.stderr)
    assert float(rewards[-1]) > 3.5

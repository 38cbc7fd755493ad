"""The training program as a user or a scheduler meets it: exit codes, signals, resuming, nothing left."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from sample_factory.algorithms.appo.exits import ExitStatus
from tests.session.conftest import StartProgram
from tests.session.running import FEED_FORWARD, Program, command_line, latest, log_text

pytestmark = pytest.mark.processes

ENV = "gym_CartPole-v1"
ENDLESS = "--train_for_env_steps=1000000000"


def _flags(tmp_path: Path, *flags: str, env: str = ENV) -> list[str]:
    return command_line(tmp_path, env, *FEED_FORWARD, *flags)


def _wait_for_learning(program: Program, tmp_path: Path) -> None:
    """Until the learner has made its first step, which it saves."""
    directory = tmp_path / "experiment" / "checkpoint_p0"
    program.wait_until(lambda: any(directory.glob("checkpoint_*.pth")), "the first checkpoint")


def test_a_run_that_reaches_its_target_exits_with_0_and_says_what_it_collected(
    tmp_path: Path, start_program: StartProgram
):
    program = start_program(*_flags(tmp_path, "--train_for_env_steps=2000"))
    assert program.wait() == ExitStatus.SUCCESS
    program.assert_nothing_left()
    found = latest(tmp_path)
    assert f"Collected {{0: {found.env_steps}}}, FPS: " in program.output
    assert "Traceback" not in program.output


def test_resuming_restores_every_counter(tmp_path: Path, start_program: StartProgram):
    decay = ("--lr_schedule=linear_decay", "--ppo_epochs=2", "--num_batches_per_iteration=2")
    flags = _flags(tmp_path, *decay, "--with_vtrace=False", "--env_frameskip=2")
    assert start_program(*flags, "--train_for_env_steps=2000").wait() == 0
    first = latest(tmp_path)
    program = start_program(*flags, "--train_for_env_steps=6000")
    assert program.wait() == 0
    program.assert_nothing_left()
    second = latest(tmp_path)
    assert f"Policy 0 resumes at version {first.policy_version} with {first.env_steps} frames." in log_text(
        tmp_path
    )
    assert second.state["train_step"] > first.state["train_step"]
    assert second.env_steps > 6000
    # What was counted afresh would not fit what was counted over both sessions.
    assert second.state["samples"] == pytest.approx(second.env_steps / 2, rel=0.05)
    assert second.state["lr_schedule"]["updates"] == second.state["train_step"]
    assert float(second.state["optimizer"]["state"][0]["step"]) == second.state["train_step"]


def test_ctrl_c_saves_and_exits_with_2(tmp_path: Path, start_program: StartProgram):
    program = start_program(*_flags(tmp_path, ENDLESS))
    _wait_for_learning(program, tmp_path)
    program.signal_group(signal.SIGINT)
    assert program.wait(60) == ExitStatus.INTERRUPTED == 2
    program.assert_nothing_left()
    assert "Stopped early; the same command resumes." in program.output
    assert "Traceback" not in program.output
    collected = re.search(r"Collected \{0: (\d+)\}", program.output)
    assert collected is not None
    assert latest(tmp_path).env_steps >= int(collected[1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_scheduler_that_wants_the_machine_back_gets_75_and_a_checkpoint(
    tmp_path: Path, start_program: StartProgram, number: int
):
    program = start_program(*_flags(tmp_path, ENDLESS, "--inference=policy_workers"))
    _wait_for_learning(program, tmp_path)
    program.signal_group(number)
    assert program.wait(60) == ExitStatus.REQUEUE == 75
    program.assert_nothing_left()
    collected = re.search(r"Collected \{0: (\d+)\}", program.output)
    assert collected is not None
    assert latest(tmp_path).env_steps >= int(collected[1]) > 0
    assert not (tmp_path / "experiment" / "done").exists()


def test_sigterm_to_the_main_process_alone_is_enough(tmp_path: Path, start_program: StartProgram):
    program = start_program(*_flags(tmp_path, ENDLESS))
    _wait_for_learning(program, tmp_path)
    os.kill(program.process.pid, signal.SIGTERM)
    assert program.wait(60) == ExitStatus.REQUEUE
    program.assert_nothing_left()


def test_ctrl_c_during_the_start_leaves_nothing(tmp_path: Path, start_program: StartProgram):
    program = start_program(*_flags(tmp_path, ENDLESS))
    program.wait_until(lambda: len(program.family()) >= 2, "the first child process")
    program.signal_group(signal.SIGINT)
    assert program.wait(60) != 0
    program.assert_nothing_left()


@pytest.mark.parametrize(
    "inference", [pytest.param("rollout_workers", marks=pytest.mark.long), "policy_workers"]
)
def test_killing_the_main_process_leaves_nothing_and_the_next_run_resumes(
    tmp_path: Path, start_program: StartProgram, inference: str
):
    flags = _flags(tmp_path, f"--inference={inference}")
    program = start_program(*flags, ENDLESS)
    _wait_for_learning(program, tmp_path)
    assert len(program.family()) >= 4
    program.process.kill()
    program.wait(10)
    program.assert_nothing_left()
    before = latest(tmp_path)
    again = start_program(*flags, f"--train_for_env_steps={before.env_steps + 1000}")
    assert again.wait() == 0
    again.assert_nothing_left()
    assert latest(tmp_path).env_steps > before.env_steps + 1000


SCRIPT = '''
"""A user's script: everything of its own is defined here and registered in main()."""
import sys

import gymnasium
import numpy as np
from torch import nn

from sample_factory.config.parsing import arg_parser, parse_args
from sample_factory.envs.registry import register_env
from sample_factory.model.encoders import EncoderBase, register_custom_encoder
from sample_factory.run_algorithm import run_algorithm


class MyEnv(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, length):
        self.length, self.steps = length, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(2, self.steps / self.length, np.float32), 1.0, self.steps >= self.length, False, {}


class MyEncoder(EncoderBase):
    def __init__(self, cfg, obs_space):
        super().__init__(cfg, obs_space)
        self.layer = nn.Linear(2, 8)
        self.encoder_out_size = 8

    def forward(self, obs_dict):
        return self.layer(obs_dict["obs"])


def make_my_env(full_env_name, cfg=None, env_config=None):
    return MyEnv(cfg.my_length)


def add_flags(env, parser):
    parser.add_argument("--my_length", type=int, default=5)


def main():
    register_env("my_env", make_my_env, add_flags)
    register_custom_encoder("my_encoder", MyEncoder)
    return run_algorithm(parse_args())


if __name__ == "__main__":
    sys.exit(main())
'''


def test_what_a_users_script_registers_in_main_is_known_to_all_workers(
    tmp_path: Path, start_program: StartProgram
):
    script = tmp_path / "my_script.py"
    script.write_text(SCRIPT)
    flags = command_line(tmp_path, "my_env_1", *FEED_FORWARD, "--encoder_custom=my_encoder", "--my_length=7")
    program = start_program(*flags, "--train_for_env_steps=2000", "--stats_avg=10", script=str(script))
    assert program.wait() == 0, program.output
    program.assert_nothing_left()
    assert "actor.encoder.layer.weight" in latest(tmp_path).state["model"]
    assert '"0_aux/avg_len":7.0' in (tmp_path / "experiment" / "metrics.jsonl").read_text()


def test_what_workers_say_reaches_the_log_file(tmp_path: Path, start_program: StartProgram):
    program = start_program(*_flags(tmp_path, "--train_for_env_steps=200"))
    assert program.wait() == 0
    assert "Policy 0 starts from scratch." in log_text(tmp_path)

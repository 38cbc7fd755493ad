"""Every mistake a newcomer makes is answered by one clear sentence and the right exit code, at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.session.conftest import StartProgram
from tests.session.running import ENJOY, FEED_FORWARD, Program, command_line

pytestmark = pytest.mark.processes

USAGE_ERROR = 2


def _answer(program: Program, exit_code: int = USAGE_ERROR) -> str:
    """The one sentence on the screen, after checking that there is nothing else and nobody left."""
    assert program.wait(60) == exit_code, program.output
    program.assert_nothing_left()
    lines = program.output.strip().splitlines()
    assert len(lines) == 1, program.output
    assert lines[0].startswith("error: ")
    return lines[0]


def _train(tmp_path: Path, env: str, *flags: str) -> list[str]:
    return command_line(tmp_path / "train_dir", env, *FEED_FORWARD, *flags)


def test_an_unknown_environment_family_suggests_a_known_one(tmp_path: Path, start_program: StartProgram):
    answer = _answer(start_program(*_train(tmp_path, "dom_basic")))
    assert "dom_basic" in answer
    assert "doom_" in answer


def test_an_unknown_gymnasium_environment_is_named(tmp_path: Path, start_program: StartProgram):
    answer = _answer(start_program(*_train(tmp_path, "gym_CartPol-v1")))
    assert "CartPol-v1" in answer
    assert "CartPole" in answer


HIDE_PACKAGE = """
import sys

sys.modules["{package}"] = None  # as if it were not installed

from sample_factory.run_algorithm import main

if __name__ == "__main__":
    sys.exit(main())
"""


@pytest.mark.parametrize(
    ("env", "package", "extra"),
    [
        ("doom_basic", "vizdoom", "doom"),
        ("atari_breakout", "ale_py", "atari"),
        ("mujoco_hopper", "mujoco", "mujoco"),
    ],
)
def test_a_missing_package_names_the_extra_that_brings_it(
    tmp_path: Path, start_program: StartProgram, env: str, package: str, extra: str
):
    script = tmp_path / "without_package.py"
    script.write_text(HIDE_PACKAGE.format(package=package))
    answer = _answer(start_program(*_train(tmp_path, env), script=str(script)))
    assert package in answer
    assert re.search(rf"\[{extra}\]|extra.*{extra}", answer), answer


def test_a_batch_size_that_does_not_divide_comes_with_one_that_does(
    tmp_path: Path, start_program: StartProgram
):
    answer = _answer(start_program(*_train(tmp_path, "gym_CartPole-v1", "--batch_size=100")))
    assert "--batch_size=100" in answer
    assert "--batch_size=96 or --batch_size=104" in answer
    assert not (tmp_path / "train_dir").exists()


@pytest.mark.parametrize("place", ["a file", "/proc"])
def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path, start_program: StartProgram, place: str):
    if place == "a file":
        (tmp_path / "train_dir").write_text("not a directory")
        train_dir = tmp_path / "train_dir"
    else:
        train_dir = Path("/proc/sample_factory")
    answer = _answer(start_program(*_train(tmp_path, "gym_CartPole-v1", f"--train_dir={train_dir}")))
    assert str(train_dir) in answer
    assert "--train_dir" in answer


def test_an_unknown_flag_suggests_the_nearest_one(tmp_path: Path, start_program: StartProgram):
    answer = _answer(start_program(*_train(tmp_path, "gym_CartPole-v1", "--lerning_rate=0.1")))
    assert "--lerning_rate" in answer
    assert "--learning_rate" in answer


def test_a_value_of_the_wrong_type_is_named(tmp_path: Path, start_program: StartProgram):
    answer = _answer(start_program(*_train(tmp_path, "gym_CartPole-v1", "--num_workers=many")))
    assert "--num_workers" in answer
    assert "many" in answer


def test_a_missing_environment_name_comes_with_an_example(tmp_path: Path, start_program: StartProgram):
    assert "--env=doom_basic" in _answer(start_program("--algo=APPO"))


def test_evaluating_an_experiment_that_does_not_exist_says_where_it_was_looked_for(
    tmp_path: Path, start_program: StartProgram
):
    flags = ("--algo=APPO", "--env=gym_CartPole-v1", "--experiment=nothing", f"--train_dir={tmp_path}")
    answer = _answer(start_program(*flags, module=ENJOY))
    assert str(tmp_path / "nothing") in answer
    assert "--experiment=nothing" in answer


def test_a_second_run_on_the_same_directory_names_the_first(tmp_path: Path, start_program: StartProgram):
    flags = _train(tmp_path, "gym_CartPole-v1", "--train_for_env_steps=1000000000")
    first = start_program(*flags)
    lock = tmp_path / "train_dir" / "experiment" / ".lock"
    first.wait_until(lambda: lock.exists() and lock.read_text().strip(), "the lock")
    second = start_program(*flags)
    answer = _answer(second)
    assert f"in use by process {first.process.pid}" in answer
    assert "--experiment" in answer
    assert first.process.poll() is None


STRANGE_ENV = """
import sys

import gymnasium

from sample_factory.envs.registry import register_env
from sample_factory.run_algorithm import main


class StrangeEnv(gymnasium.Env):
    observation_space = gymnasium.spaces.Text(10)
    action_space = gymnasium.spaces.Discrete(2)


if __name__ == "__main__":
    register_env("strange", lambda name, cfg=None, env_config=None: StrangeEnv())
    sys.exit(main())
"""


def test_an_observation_that_no_network_can_read_is_explained(tmp_path: Path, start_program: StartProgram):
    script = tmp_path / "strange_env.py"
    script.write_text(STRANGE_ENV)
    answer = _answer(start_program(*_train(tmp_path, "strange"), script=str(script)))
    assert "strange observes only text" in answer

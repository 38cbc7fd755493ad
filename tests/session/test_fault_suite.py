"""Environments that fail in every way: training goes on, or ends saying what happened first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sample_factory.algorithms.appo.exits import ExitStatus
from sample_factory.bench.fault_envs import FAULTS, FAULTS_DIR, Fault, register_fault_envs
from sample_factory.config.errors import ConfigError
from sample_factory.monitoring.log import close_logging
from tests.session.conftest import StartProgram
from tests.session.running import FEED_FORWARD, child_pids, command_line, latest, log_text, train

pytestmark = pytest.mark.processes

ENV = "faulty_CartPole-v1"
MODULE = "sample_factory.bench.fault_session"
PLACES = ("init", "reset", "step")
KINDS = tuple(FAULTS)
ENDLESS = "--train_for_env_steps=1000000000"
RATES = {"init": 0.5, "reset": 0.1, "step": 0.01}  # so that the workers get something done in between


@pytest.fixture(scope="module")
def survived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A session in which every fault strikes once in every place."""
    register_fault_envs()
    before = child_pids()
    train_dir = tmp_path_factory.mktemp("survived")
    faults = [f"{place}:{kind}:{RATES[place]}:1" for place in PLACES for kind in KINDS]
    flags = (
        *FEED_FORWARD,
        f"--faults=probe:exception:1:1,{','.join(faults)}",
        "--num_workers=3",
        "--env_step_timeout_seconds=2",
        "--reset_timeout_seconds=4",
        "--max_worker_restarts=20",
        "--train_for_env_steps=150000",
    )
    status = train(train_dir, ENV, *flags)
    close_logging()
    assert status is ExitStatus.SUCCESS
    assert not child_pids() - before
    yield train_dir


def test_a_run_reaches_its_target_though_every_fault_strikes_in_every_place(survived: Path):
    struck = sorted(path.name for path in (survived / "experiment" / FAULTS_DIR).iterdir())
    assert struck == sorted(
        ["probe_exception_0", *(f"{place}_{kind}_0" for place in PLACES for kind in KINDS)]
    )
    assert latest(survived).env_steps > 150_000


@pytest.mark.parametrize(
    "told",
    [
        "raised FaultyEnvError: the simulator has lost its mind; it is replaced, its trajectory is cut here",
        "(while it was made) raised FaultyEnvError",
        "exited with code 3",
        "was killed by SIGSEGV",
        "was killed by SIGKILL; perhaps the machine ran out of memory",
        "can't be made: the simulator has lost its mind",
        "open trajectories of rollout_worker_",
    ],
)
def test_every_fault_is_told(survived: Path, told: str):
    assert told in log_text(survived)


@pytest.mark.parametrize("place", ["__init__", "reset", "step"])
def test_the_stack_of_a_hang_shows_where_it_hangs(survived: Path, place: str):
    stacks = log_text(survived).split("its stack:")[1:]
    hanging = [stack for stack in stacks if "in _hang" in stack.partition(" died (")[0]]
    assert any(f"in {place}" in stack.partition(" died (")[0] for stack in hanging)


def test_the_stack_of_a_crash_shows_where_it_crashed(survived: Path):
    assert "Fatal Python error: Segmentation fault" in log_text(survived)
    assert "in _crash" in log_text(survived)


def test_the_environments_of_a_dead_worker_are_named_with_their_seeds(survived: Path):
    assert "it had environments 0 (seed " in log_text(survived)


@pytest.mark.parametrize(
    ("faults", "last_line"),
    [
        ("init:exception", "first with FaultyEnvError: the simulator has lost its mind"),
        ("step:segfault:0.5", "was killed by SIGSEGV"),
        ("reset:hang", "was stuck and has been killed"),
    ],
)
def test_an_environment_that_fails_every_time_ends_the_run_with_its_first_error(
    tmp_path: Path, start_program: StartProgram, faults: str, last_line: str
):
    limits = ("--max_worker_restarts=1", "--reset_timeout_seconds=4")
    program = start_program(
        *command_line(tmp_path, ENV, *FEED_FORWARD, ENDLESS, f"--faults={faults}", *limits), module=MODULE
    )
    assert program.wait() == ExitStatus.FAILURE
    program.assert_nothing_left()
    lines = program.output.rstrip().splitlines()
    assert lines[-1].startswith("The session has failed: rollout_worker_")
    assert last_line in lines[-1]
    assert any(line.startswith("Go on with: ") for line in lines[-4:])
    assert "fault_envs.py" in program.output


def test_an_environment_that_can_never_be_made_ends_the_run_with_the_exception(
    tmp_path: Path, start_program: StartProgram
):
    arguments = command_line(tmp_path, ENV, *FEED_FORWARD, ENDLESS, "--faults=probe:exception")
    program = start_program(*arguments, module=MODULE)
    assert program.wait() == ExitStatus.FAILURE
    lines = program.output.rstrip().splitlines()
    assert lines[-1] == (
        f"The session has failed: --env={ENV} can't be made: the simulator has lost its mind"
    )
    assert (tmp_path / "experiment" / "run.json").read_text().count('"FAILED"') == 1


@pytest.mark.parametrize("text", ["step", "nowhere:exit", "step:sulk", "step:exit:0.1:2:3"])
def test_a_fault_that_does_not_exist_is_refused_with_an_example(text: str):
    with pytest.raises(ConfigError, match=r"--faults=step:segfault:0\.001"):
        Fault.parse(text)

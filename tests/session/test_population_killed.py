"""The main process of a population is killed; the next session finds the population as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sample_factory.algorithms.appo.population import EVENTS_FILE, STATE_FILE, hyper_parameters_path
from tests.session.conftest import StartProgram
from tests.session.running import FEED_FORWARD, command_line

pytestmark = pytest.mark.processes

POPULATION = (
    *FEED_FORWARD,
    "--seed=3",
    "--num_policies=3",
    "--with_pbt=True",
    "--pbt_start_mutation=300",
    "--pbt_mutation_rate=0.5",
    "--pbt_replace_reward_gap=0.01",
    "--stats_avg=5",
)


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def has_evolved(directory: Path) -> bool:
    found = {event["event"] for event in read(directory / EVENTS_FILE)}
    return "replaced" in found and len(read(directory / EVENTS_FILE)) > 4


def test_a_killed_population_resumes_as_it_was(tmp_path: Path, start_program: StartProgram):
    flags = command_line(tmp_path, "gym_CartPole-v1", *POPULATION)
    experiment = tmp_path / "experiment"
    program = start_program(*flags, "--pbt_period_env_steps=200", "--train_for_env_steps=100000000")
    program.wait_until(lambda: has_evolved(experiment), "a replaced policy")
    program.process.kill()
    program.wait()
    program.assert_nothing_left()
    before = json.loads((experiment / STATE_FILE).read_text())
    events = (experiment / EVENTS_FILE).read_bytes()[: before["events_bytes"]]

    resumed = start_program(*flags, "--pbt_period_env_steps=1000000000", "--train_for_env_steps=1")
    assert resumed.wait() == 0
    after = json.loads((experiment / STATE_FILE).read_text())
    assert after | {"take_overs": {}} == before | {"take_overs": {}}
    assert (experiment / EVENTS_FILE).read_bytes() == events
    files = [json.loads(hyper_parameters_path(experiment, p).read_text()) for p in range(3)]
    assert files == before["members"]

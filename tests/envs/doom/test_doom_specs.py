"""Every spec of the table runs on the real engine and leaves nothing behind."""

import os

import psutil
import pytest

from sample_factory.envs.doom.specs import DOOM_SPECS
from tests.envs.contract_check import check_env

SEVERAL_AGENTS_STEPS = 25  # many engines on few cores: a step takes long


@pytest.mark.processes
@pytest.mark.parametrize("spec", DOOM_SPECS, ids=lambda spec: spec.name)
def test_a_spec_keeps_the_contract_and_leaves_nothing_behind(spec, scenarios, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = check_env(spec.name, steps=200 if spec.num_agents == 1 else SEVERAL_AGENTS_STEPS)
    assert report.num_agents == spec.num_agents
    engines = [child for child in psutil.Process().children() if child.name() == "vizdoom"]
    assert engines == []
    assert os.listdir(tmp_path) == []


@pytest.mark.processes
def test_a_single_player_episode_repeats_with_its_seed(scenarios):
    check_env("doom_battle", steps=60, reproducible=True)


def test_the_table_has_the_specs_of_v1():
    assert {spec.name.removeprefix("doom_") for spec in DOOM_SPECS} == {
        "basic",
        "two_colors_easy",
        "two_colors_hard",
        "dm",
        "dwango5",
        "my_way_home_flat_actions",
        "defend_the_center_flat_actions",
        "my_way_home",
        "deadly_corridor",
        "defend_the_center",
        "defend_the_line",
        "health_gathering",
        "health_gathering_supreme",
        "battle",
        "battle2",
        "duel_bots",
        "deathmatch_bots",
        "duel",
        "deathmatch_full",
        "benchmark",
    }

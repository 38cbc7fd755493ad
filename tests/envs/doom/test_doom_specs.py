"""Every spec of the table runs on the real engine, keeps the contract and leaves nothing behind."""

import pytest

from sample_factory.envs.doom.specs import DOOM_SPECS
from tests.envs.contract_check import check_env


@pytest.mark.processes
@pytest.mark.parametrize(
    "spec",
    [pytest.param(s, marks=pytest.mark.long) if s.name == "doom_dwango5" else s for s in DOOM_SPECS],
    ids=lambda spec: spec.name,
)
def test_a_spec_keeps_the_contract_for_200_steps(spec, scenarios):
    report = check_env(spec.name, steps=200)
    assert report.num_agents == spec.num_agents
    assert report.observations[0]["obs"].shape == (3, 72, 128)


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

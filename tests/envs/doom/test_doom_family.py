"""The family: flags and defaults of v1, environments of one's own, small tools."""

import pickle

import pytest
from gymnasium import spaces

from sample_factory.config.parsing import parse_args
from sample_factory.envs.contract import NUM_FRAMES
from sample_factory.envs.doom import play_doom, sample_env
from sample_factory.envs.doom.family import FAMILY, register_additional_doom_env
from sample_factory.envs.doom.scripts import generate_bots
from sample_factory.envs.doom.specs import DoomSpec
from sample_factory.envs.registry import UnknownEnvError, family_for, temporary_registrations
from sample_factory_examples import train_custom_vizdoom_env as example
from tests.envs.contract_check import check_env

FLAGS = {
    "num_agents": -1,
    "num_humans": 0,
    "num_bots": -1,
    "start_bot_difficulty": None,
    "timelimit": None,
    "res_w": 128,
    "res_h": 72,
    "wide_aspect_ratio": False,
}
OVERRIDES = {
    "encoder_type": "conv",
    "encoder_subtype": "convnet_simple",
    "encoder_custom": "vizdoom",
    "hidden_size": 512,
    "ppo_clip_value": 0.2,
    "obs_subtract_mean": 0,
    "obs_scale": 255,
    "env_frameskip": 4,
    "fps": 35,
    "record_to": None,
    "exploration_loss": "symmetric_kl",
    "exploration_loss_coeff": 0.001,
}


@pytest.fixture
def registrations():
    with temporary_registrations():
        yield


def test_the_flags_of_the_family_are_those_of_v1():
    assert {setting.name: setting.default for setting in FAMILY.settings} == FLAGS


def test_the_defaults_of_the_family_are_those_of_v1():
    assert dict(FAMILY.defaults) == OVERRIDES


def test_a_parsed_command_line_has_the_flags_and_the_defaults():
    cfg = parse_args(["--env=doom_basic", "--algo=APPO"])
    assert {name: cfg[name] for name in FLAGS | OVERRIDES} == FLAGS | OVERRIDES


def test_evaluation_records_only_when_asked():
    assert parse_args(["--env=doom_basic", "--algo=APPO"], evaluation=True).record_to is None


def test_an_unknown_doom_environment_is_an_error_that_lists_the_known_ones(make_doom):
    with pytest.raises(UnknownEnvError, match=r"doom_nonsense.*doom_battle"):
        make_doom("doom_nonsense")


def test_the_example_of_a_custom_scenario_keeps_the_contract(registrations):
    example.register_custom_components()
    check_env("doom_my_custom_env", steps=60, reproducible=True)


def test_the_flag_of_the_custom_scenario_limits_its_episodes(registrations, make_doom):
    example.register_custom_components()
    assert parse_args(["--env=doom_my_custom_env", "--algo=APPO"]).my_custom_doom_arg == 300
    env = make_doom("doom_my_custom_env", my_custom_doom_arg=8)
    env.reset()
    assert [env.step(0)[3] for _ in range(2)] == [False, True]


def test_environments_of_ones_own_reach_other_processes(registrations):
    example.register_custom_components()
    restored = pickle.loads(pickle.dumps(family_for("doom_my_custom_env")))
    assert list(restored.make_env.additional) == ["doom_my_custom_env"]


def test_several_environments_can_be_added_and_the_built_in_ones_stay(registrations, make_doom):
    for name in ("doom_mine", "doom_mine_too"):
        register_additional_doom_env(DoomSpec(name, "simpler_basic.cfg", spaces.Discrete(4)))
    for name in ("doom_mine", "doom_mine_too", "doom_basic"):
        env = make_doom(name)
        env.reset()
        assert env.step(0)[4][NUM_FRAMES] == 4


def test_an_action_space_that_does_not_cover_the_buttons_is_refused(registrations, make_doom):
    register_additional_doom_env(DoomSpec("doom_mine", "take_cover.cfg", spaces.Discrete(2)))
    with pytest.raises(ValueError, match=r"covers 1 buttons, but take_cover.cfg has 2"):
        make_doom("doom_mine")


def test_a_name_outside_the_family_is_refused():
    with pytest.raises(ValueError, match="doom_mine would work"):
        register_additional_doom_env(DoomSpec("mine", "take_cover.cfg", spaces.Discrete(3)))


def test_sample_env_prints_frames_per_second(capsys):
    assert sample_env.main(["--env=doom_basic", "--frames=40"]) == 0
    assert "frames per second" in capsys.readouterr().out


def test_playing_without_a_display_is_a_sentence(monkeypatch, capsys):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert play_doom.main([]) == 1
    assert "needs a display" in capsys.readouterr().err


def test_generate_bots_prints_the_definitions(capsys):
    generate_bots.main()
    assert "name BOT_100_9" in capsys.readouterr().out

"""Names of Atari games, and every game through the contract."""

import pytest

pytest.importorskip("ale_py")
pytest.importorskip("cv2")

from ale_py import roms

from sample_factory.envs.atari.games import GAMES, game_of, limit_frames
from sample_factory.envs.make import make_env
from sample_factory.envs.registry import UnknownEnvError
from tests.envs.contract_check import check_env, family_cfg

V1_NAMES = {
    "atari_montezuma": "montezuma_revenge",
    "atari_pong": "pong",
    "atari_qbert": "qbert",
    "atari_breakout": "breakout",
    "atari_spaceinvaders": "space_invaders",
    "atari_asteroids": "asteroids",
    "atari_gravitar": "gravitar",
    "atari_mspacman": "ms_pacman",
    "atari_seaquest": "seaquest",
}
V2_SPELLINGS = {
    "atari_asteroid": "asteroids",
    "atari_bankheist": "bank_heist",
    "atari_kongfumaster": "kung_fu_master",
    "atari_namethisgame": "name_this_game",
    "atari_privateye": "private_eye",
    "atari_upndown": "up_n_down",
    "atari_wizardofwor": "wizard_of_wor",
    "atari_yarsrevenge": "yars_revenge",
}


def test_there_are_57_games_and_the_emulator_has_a_rom_of_each():
    assert len(set(GAMES)) == 57
    assert [game for game in GAMES if roms.get_rom_path(game) is None] == []


@pytest.mark.parametrize(("name", "game"), [*V1_NAMES.items(), *V2_SPELLINGS.items()])
def test_names_from_old_command_lines_still_mean_their_game(name, game):
    assert game_of(name) == game


def test_underscores_do_not_matter():
    assert game_of("atari_space_invaders") == game_of("atari_spaceinvaders") == "space_invaders"


def test_a_misspelt_game_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownEnvError, match="--env=atari_breakout"):
        game_of("atari_braekout")


def test_montezuma_is_cut_short_earlier_than_the_others():
    assert (limit_frames("montezuma_revenge"), limit_frames("pong")) == (18_000, 108_000)


@pytest.mark.parametrize(
    "game",
    [g if g in V1_NAMES.values() else pytest.param(g, marks=pytest.mark.long) for g in GAMES],
)
def test_every_game_keeps_the_contract_for_200_steps(game):
    report = check_env(f"atari_{game}", steps=200)
    assert report.observations[0]["obs"].shape == (4, 84, 84)


def test_the_family_sets_v1_defaults():
    cfg = family_cfg("atari_pong")
    chosen = {
        "encoder_subtype": "convnet_simple",
        "hidden_size": 512,
        "obs_subtract_mean": 0.0,
        "obs_scale": 255.0,
        "gamma": 0.99,
        "reward_clip": 1.0,
        "env_frameskip": 4,
        "env_framestack": 4,
        "exploration_loss_coeff": 0.01,
    }
    assert {key: getattr(cfg, key) for key in chosen} == chosen


def test_settings_reach_the_game():
    overrides = {"env_frameskip": 2, "env_framestack": 3, "pixel_format": "HWC", "atari_sticky_actions": 0.25}
    env = make_env("atari_pong", family_cfg("atari_pong", overrides), None)
    obs, _ = env.reset(seed=0)
    assert obs.shape == env.observation_space.shape == (84, 84, 3)
    assert env.step(0)[4]["num_frames"] == 2
    assert env.unwrapped.options.sticky_actions == 0.25

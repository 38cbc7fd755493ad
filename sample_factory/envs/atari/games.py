"""Names of the 57 Atari games, and which ROM and time limit each name means.

Used by the family and by the guide's table. A name is matched without its underscores, so
`atari_space_invaders` and `atari_spaceinvaders` are one game.
Invariant: every game has exactly one ROM; aliases never hide a game.
"""

from __future__ import annotations

import difflib

from sample_factory.envs.registry import UnknownEnvError

PREFIX = "atari_"

GAMES: tuple[str, ...] = tuple(
    """
    alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider berzerk bowling boxing
    breakout centipede chopper_command crazy_climber defender demon_attack double_dunk enduro fishing_derby
    freeway frostbite gopher gravitar hero ice_hockey jamesbond kangaroo krull kung_fu_master
    montezuma_revenge ms_pacman name_this_game phoenix pitfall pong private_eye qbert riverraid road_runner
    robotank seaquest skiing solaris space_invaders star_gunner surround tennis time_pilot tutankham
    up_n_down venture video_pinball wizard_of_wor yars_revenge zaxxon
    """.split()  # noqa: SIM905 (57 quoted names are harder to read)
)

# Spellings that Sample Factory's command lines use.
ALIASES: dict[str, str] = {
    "montezuma": "montezuma_revenge",
    "asteroid": "asteroids",
    "kongfumaster": "kung_fu_master",
    "privateye": "private_eye",
}

DEFAULT_LIMIT_FRAMES = 108_000  # half an hour of play
LIMIT_FRAMES: dict[str, int] = {"montezuma_revenge": 18_000}

_FLAT_NAMES: dict[str, str] = {game.replace("_", ""): game for game in GAMES} | ALIASES


def game_of(env_name: str) -> str:
    """The game an environment name means, e.g. `space_invaders` for `atari_spaceinvaders`.

    Raises:
        UnknownEnvError: no game has this name.
    """
    flat = env_name.removeprefix(PREFIX).lower().replace("_", "")
    if flat in _FLAT_NAMES:
        return _FLAT_NAMES[flat]
    nearest = difflib.get_close_matches(flat, _FLAT_NAMES, n=1, cutoff=0.0)[0]
    raise UnknownEnvError(f"--env={env_name} is not one of the 57 Atari games, try --env={PREFIX}{nearest}.")


def limit_frames(game: str) -> int:
    """After how many frames a game is cut short."""
    return LIMIT_FRAMES.get(game, DEFAULT_LIMIT_FRAMES)

"""What a Doom scenario is, and how a game is told about it.

The built-in scenarios are written down in `specs` in full, so a change of the configuration files that come
with vizdoom changes nothing here. Users' scenarios are the engine's own `.cfg` files.

Invariant: reading a scenario starts no engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sample_factory.envs.doom.scenario_files import find_scenario_file

if TYPE_CHECKING:
    import vizdoom

NARROW = (160, 120)  # the smallest resolution the engine has
WIDE = (256, 144)


@dataclass(frozen=True)
class Scenario:
    """A map with the buttons, variables and rewards that go with it.

    Args:
        wad: file name, in the vizdoom package or the cache of fetched scenarios.
        buttons: names of the engine's buttons, in the order of the action space.
        variables: names of the engine's game variables to report in `info`.
        living_reward: for each frame.
        death_penalty: subtracted when the player dies.
        timeout_frames: length of an episode; 0 is endless.
        start_frame: frames played before the first observation, so that monsters are awake.
        skill: difficulty of the monsters, 1 to 5.
        hud: draw the status bar.
        weapon: draw the weapon in hand.
        crosshair: draw a cross in the middle.
    """

    wad: str
    buttons: tuple[str, ...]
    variables: tuple[str, ...] = ()
    living_reward: float = 0.0
    death_penalty: float = 0.0
    timeout_frames: int = 0
    start_frame: int = 1
    skill: int = 3
    hud: bool = True
    weapon: bool = True
    crosshair: bool = False


@dataclass(frozen=True)
class ScenarioFacts:
    """What an environment has to know about a scenario, wherever it is written down."""

    variables: tuple[str, ...]
    num_buttons: int
    living_reward: float
    timeout_frames: int


def require_files(scenario: Scenario | str) -> None:
    """Raises `MissingScenarioError` when a file of the scenario is not there."""
    find_scenario_file(scenario.wad if isinstance(scenario, Scenario) else scenario)


def read_facts(scenario: Scenario | str) -> ScenarioFacts:
    """The facts of a scenario, or of a `.cfg` file."""
    import vizdoom

    game = vizdoom.DoomGame()
    set_up_game(game, scenario)
    return ScenarioFacts(
        variables=tuple(variable.name for variable in game.get_available_game_variables()),
        num_buttons=game.get_available_buttons_size(),
        living_reward=game.get_living_reward(),
        timeout_frames=game.get_episode_timeout(),
    )


def set_up_game(game: vizdoom.DoomGame, scenario: Scenario | str) -> None:
    """Tells a game that is not running what to play, and to play it without a window or sound."""
    import vizdoom

    if isinstance(scenario, Scenario):
        _set_up_built_in(game, scenario, find_scenario_file(scenario.wad))
    else:
        game.load_config(str(find_scenario_file(scenario)))
    game.set_screen_format(vizdoom.ScreenFormat.CRCGCB)
    game.set_window_visible(False)
    game.set_sound_enabled(False)
    game.set_console_enabled(False)


def _set_up_built_in(game: vizdoom.DoomGame, scenario: Scenario, wad: Path) -> None:
    import vizdoom

    game.set_doom_scenario_path(str(wad))
    game.set_doom_map("map01")
    game.set_doom_skill(scenario.skill)
    game.set_available_buttons([getattr(vizdoom.Button, name) for name in scenario.buttons])
    game.set_available_game_variables([getattr(vizdoom.GameVariable, name) for name in scenario.variables])
    game.set_living_reward(scenario.living_reward)
    game.set_death_penalty(scenario.death_penalty)
    game.set_episode_timeout(scenario.timeout_frames)
    game.set_episode_start_time(scenario.start_frame)
    game.set_render_hud(scenario.hud)
    game.set_render_weapon(scenario.weapon)
    game.set_render_crosshair(scenario.crosshair)
    game.set_render_decals(False)
    game.set_render_particles(False)

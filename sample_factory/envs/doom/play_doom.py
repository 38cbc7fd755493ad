"""Lets a person play a Doom environment with keyboard and mouse, in the engine's own window.

    python -m sample_factory.envs.doom.play_doom --env=doom_battle
    python -m sample_factory.envs.doom.play_doom --env=doom_duel_bots --join=127.0.0.1:40300

With `--join` one takes a seat of a match that was made with `--num_humans`. Needs a display.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import vizdoom

from sample_factory.envs.doom.game_process import ENGINE_ERRORS, GameProcess, GameStartError
from sample_factory.envs.doom.make import find_spec
from sample_factory.envs.doom.scenario import set_up_game
from sample_factory.envs.doom.scenario_files import MissingScenarioError
from sample_factory.envs.registry import UnknownEnvError


def play(env_name: str, episodes: int, join: str | None) -> None:
    """Shows the game until the episodes are over; prints what each one was worth."""
    spec = find_spec(env_name, {})

    def configure(game: vizdoom.DoomGame, directory: Path) -> None:
        set_up_game(game, spec.scenario)
        game.set_screen_resolution(vizdoom.ScreenResolution.RES_640X480)
        game.set_window_visible(True)
        game.set_mode(vizdoom.Mode.ASYNC_SPECTATOR)
        if join is not None:
            game.add_game_args(f"-join {join} +name Human +colorset 0")

    process = GameProcess(configure)
    game = process.game
    try:
        for episode in range(episodes):
            if episode > 0:
                game.new_episode()
            while not game.is_episode_finished():
                game.advance_action()
            print(f"Episode {episode}: reward {game.get_total_reward():.2f}")  # noqa: T201
    finally:
        process.close()


def main(argv: list[str] | None = None) -> int:
    """Plays as the command line says; returns the exit status."""
    parser = argparse.ArgumentParser(description="Play a Doom environment yourself.")
    parser.add_argument("--env", default="doom_basic", help="Default: %(default)s")
    parser.add_argument("--episodes", type=int, default=3, help="Default: %(default)s")
    parser.add_argument("--join", help="host:port of a match with a free seat.")
    args = parser.parse_args(argv)
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        print("Playing needs a display, and neither DISPLAY nor WAYLAND_DISPLAY is set.", file=sys.stderr)  # noqa: T201
        return 1
    try:
        play(args.env, args.episodes, args.join)
    except (UnknownEnvError, MissingScenarioError, GameStartError, *ENGINE_ERRORS) as error:
        print(f"The game could not be played: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Replays a recorded demo and writes its frames as pictures.

    python -m sample_factory.envs.doom.doom_play_demo --env=doom_basic --demo_path=e000.lmp

Demos are written by evaluation with `--record_to`; the environment must be the one that was recorded. The
pictures go to `<demo>_frames/00000.png` and so on, next to the demo.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import vizdoom

from sample_factory.envs.doom.game_process import ENGINE_ERRORS, GameProcess, GameStartError
from sample_factory.envs.doom.make import find_spec
from sample_factory.envs.doom.scenario import set_up_game
from sample_factory.envs.doom.scenario_files import MissingScenarioError
from sample_factory.envs.recording import png
from sample_factory.envs.registry import UnknownEnvError


def replay(env_name: str, demo: Path) -> Path:
    """Writes one picture per frame of a demo; gives the folder they are in."""
    spec = find_spec(env_name, {})
    folder = demo.with_name(f"{demo.stem}_frames")
    folder.mkdir(exist_ok=True)

    def configure(game: vizdoom.DoomGame, directory: Path) -> None:
        set_up_game(game, spec.scenario)
        game.set_screen_resolution(vizdoom.ScreenResolution.RES_640X480)
        game.set_screen_format(vizdoom.ScreenFormat.RGB24)
        game.set_episode_timeout(0)

    process = GameProcess(configure)
    try:
        process.game.replay_episode(str(demo.absolute()))
        _write_frames(process.game, folder)
    finally:
        process.close()
    return folder


def _write_frames(game: vizdoom.DoomGame, folder: Path) -> None:
    frame = 0
    while not game.is_episode_finished():
        state = game.get_state()
        if state is not None:
            (folder / f"{frame:05d}.png").write_bytes(png(np.asarray(state.screen_buffer)))
            frame += 1
        game.advance_action()


def main(argv: list[str] | None = None) -> int:
    """Replays the demo named on the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Write the frames of a Doom demo as pictures.")
    parser.add_argument("--env", required=True, help="The environment it was recorded in, e.g. doom_basic.")
    parser.add_argument("--demo_path", required=True, type=Path, help="The .lmp file.")
    args = parser.parse_args(argv)
    if not args.demo_path.is_file():
        parser.error(f"--demo_path={args.demo_path} does not exist")
    try:
        folder = replay(args.env, args.demo_path)
    except (UnknownEnvError, MissingScenarioError, GameStartError, *ENGINE_ERRORS) as error:
        print(f"The demo could not be replayed: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print(f"The frames are in {folder}.")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())

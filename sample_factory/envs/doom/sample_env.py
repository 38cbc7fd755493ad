"""Plays a Doom environment with random actions and prints how fast that goes.

    python -m sample_factory.envs.doom.sample_env --env=doom_benchmark --frames=20000

One environment in one process, no learning: a first check that games run on this machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from sample_factory.config.parsing import parse_args
from sample_factory.envs.contract import NUM_FRAMES
from sample_factory.envs.doom.scenario_files import MissingScenarioError
from sample_factory.envs.make import make_env
from sample_factory.envs.registry import UnknownEnvError


def sample(env_name: str, num_frames: int) -> float:
    """Plays at least `num_frames` frames of every agent; gives frames of all agents per second."""
    cfg = parse_args([f"--env={env_name}", "--algo=APPO", "--experiment=sample_env"])
    env: Any = make_env(env_name, cfg, None)
    try:
        env.reset(seed=0)
        frames, began = 0, time.perf_counter()
        while frames < num_frames:
            actions = [env.action_space.sample() for _ in range(env.num_agents)]
            _, _, terminated, truncated, info = env.step(actions if env.is_multiagent else actions[0])
            frames += (info[0] if env.is_multiagent else info)[NUM_FRAMES]
            if not env.is_multiagent and (terminated or truncated):
                env.reset()
        return float(frames * env.num_agents) / (time.perf_counter() - began)
    finally:
        env.close()


def main(argv: list[str] | None = None) -> int:
    """Measures one environment; returns the exit status."""
    parser = argparse.ArgumentParser(description="Play a Doom environment with random actions.")
    parser.add_argument("--env", default="doom_benchmark", help="Default: %(default)s")
    parser.add_argument("--frames", type=int, default=4000, help="Default: %(default)s")
    args = parser.parse_args(argv)
    try:
        frames_per_sec = sample(args.env, args.frames)
    except (UnknownEnvError, MissingScenarioError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    print(f"{args.env}: {frames_per_sec:.0f} frames per second.")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())

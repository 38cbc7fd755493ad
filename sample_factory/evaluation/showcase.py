"""Entry point: `python -m sample_factory.evaluation.showcase` shows what training has achieved.

Scores the trained policy beside a random one, writes a video and the learning curve into the experiment's
directory, and prints where they are. `quickstart.sh` ends with it, and passes the trainer's flags on to it;
those that do not say where the experiment is are ignored.

Invariant: results go to stdout, all else to stderr; a missing picture is no failure, a missing policy is.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sample_factory.config.config import Config, experiment_dir
from sample_factory.config.errors import ConfigError, report_and_exit
from sample_factory.config.experiment_files import CFG_FILE, cfg_path, read_cfg_file
from sample_factory.config.parsing import parse_args
from sample_factory.config.precedence import resolve
from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.make import make_env
from sample_factory.evaluation.curves import learning_curves, plot_learning_curve
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.evaluate import EvaluationResult, evaluate_policy
from sample_factory.evaluation.player import load_player, random_player
from sample_factory.evaluation.show import enjoy
from sample_factory.evaluation.video import video_path
from sample_factory.model.checkpoints import CheckpointError
from sample_factory.monitoring.log import init_logging, logger

CURVE_NAME = "learning_curve.png"
_ENVS_AT_ONCE = 8
_VIDEO_FRAMES = 600


@dataclass(frozen=True)
class Scores:
    """A trained policy beside chance, on the same environments."""

    trained: EvaluationResult
    random: EvaluationResult


def score(cfg: Config, num_episodes: int, seed: int) -> Scores:
    """Plays episodes with the experiment's policy and with a random one."""

    def make(env_index: int) -> Any:
        return make_env(cfg.env, cfg, EnvConfig(0, env_index, env_index))

    env = make(0)
    try:
        players = (load_player(cfg, env, seed), random_player(env, seed))
    finally:
        env.close()
    trained, random = (
        evaluate_policy(player, make, num_episodes=num_episodes, num_envs=_ENVS_AT_ONCE, seed=seed)
        for player in players
    )
    return Scores(trained, random)


def record_video(cfg: Config) -> Path:
    """Writes a short video; its path."""
    wanted = Config.from_dict(cfg.to_dict())
    wanted.cli_args |= {"save_video": True, "video_frames": _VIDEO_FRAMES}
    enjoy(wanted)
    return video_path(experiment_dir(cfg), cfg.video_name)


def draw_curve(cfg: Config, random_score: float) -> Path:
    """Draws the learning curve; its path."""
    directory = experiment_dir(cfg)
    return plot_learning_curve(
        learning_curves(directory, cfg.num_policies),
        directory / CURVE_NAME,
        title=f"{cfg.env}: {cfg.experiment}",
        random_score=random_score,
    )


def showcase(cfg: Config, num_episodes: int, seed: int) -> None:
    """Prints scores and the paths of the pictures."""
    scores = score(cfg, num_episodes, seed)
    _say(
        f"Mean reward over {num_episodes} episodes of {cfg.env}: "
        f"{scores.trained.mean_reward:.2f} (a random policy: {scores.random.mean_reward:.2f})"
    )
    for name, make in (
        ("Video", lambda: record_video(cfg)),
        ("Learning curve", lambda: draw_curve(cfg, scores.random.mean_true_reward)),
    ):
        try:
            _say(f"{name}: {make()}")
        except EvaluationError as error:
            _say(f"{name}: none. {error}")


def load_cfg(argv: Sequence[str]) -> tuple[Config, argparse.Namespace]:
    """The experiment's settings and the flags of this program.

    Raises:
        ConfigError: there is no such experiment.
    """
    parser = argparse.ArgumentParser(
        prog="python -m sample_factory.evaluation.showcase",
        description="Score, film and plot a trained policy.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--experiment", default="default_experiment", help="name of the experiment")
    parser.add_argument("--train_dir", default="./train_dir", help="where experiments are")
    parser.add_argument("--experiments_root", default=None, help="folder of the experiment in --train_dir")
    parser.add_argument("--showcase_episodes", type=int, default=20, help="episodes to score")
    parser.add_argument("--showcase_seed", type=int, default=0, help="seed of the episodes")
    args, _ = parser.parse_known_args(argv)
    place = Config(
        experiment=args.experiment, train_dir=args.train_dir, experiments_root=args.experiments_root
    )
    path = cfg_path(place)
    if not path.exists():
        raise ConfigError(f"No experiment to show: {path.parent} has no {CFG_FILE}; check --experiment.")
    flags = [f"--{name}={value}" for name, value in vars(place).items() if value is not None]
    env_name = read_cfg_file(path)["env"]
    return resolve(parse_args([f"--env={env_name}", *flags], evaluation=True), evaluation=True), args


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; the exit code."""
    init_logging(None, log_to_file=False)
    logger().setLevel(logging.WARNING)  # a line per episode of the video would hide the results
    try:
        cfg, args = load_cfg(sys.argv[1:] if argv is None else argv)
        showcase(cfg, args.showcase_episodes, args.showcase_seed)
    except ConfigError as error:
        report_and_exit(error)
    except (EvaluationError, CheckpointError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

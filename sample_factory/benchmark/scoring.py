"""Entry point: `python -m sample_factory.benchmark.scoring DIR` plays a run's policy and records its score.

`benchmark run` starts one such process per run, because here torch is needed and environments may crash. With
`--random ENV` it measures a random policy instead and prints its mean return as JSON.

Invariant: a run's record gets an evaluation score only from a complete evaluation.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sample_factory.benchmark.curves import FPS_TAG, read_curve
from sample_factory.benchmark.run_record import (
    RUN_FILE,
    RunRecord,
    RunStatus,
    begin_training,
    eval_result,
    read_json_object,
)
from sample_factory.config.config import Config
from sample_factory.config.errors import ConfigError
from sample_factory.config.experiment_files import CFG_FILE, read_cfg_file, write_json
from sample_factory.config.parsing import parse_args
from sample_factory.config.precedence import resolve
from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.make import make_env
from sample_factory.envs.registry import MissingPackageError, UnknownEnvError
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.evaluate import EvaluationResult, evaluate_policy
from sample_factory.evaluation.player import Player, load_player, random_player
from sample_factory.model.checkpoints import CheckpointError

EVAL_DIR = "eval/final"
_ENVS_AT_ONCE = 8
_EXPECTED_ERRORS = (ConfigError, EvaluationError, CheckpointError, UnknownEnvError, MissingPackageError)


@dataclass(frozen=True)
class Options:
    """How to play."""

    episodes: int = 50
    seed: int = 0
    checkpoint: str = "latest"
    deterministic: bool = False


def score_run(directory: Path, options: Options) -> float:
    """Plays the policy of an experiment, writes `eval/final/` and the run's result; the score.

    Raises:
        ConfigError: there is no experiment.
        EvaluationError: its policy can't be played.
    """
    cfg = _load_cfg(directory, options)
    result = _play(cfg, options)
    _write_evaluation(directory / EVAL_DIR, result, options)
    record = _open_record(cfg, directory)
    record.content["result"] = eval_result(result.episode_rewards, result.lengths, result.true_rewards)
    for name in ("episodes.csv", "eval.json"):
        record.add_artifact(directory / EVAL_DIR / name)
    record.save()
    return result.mean_true_reward


def random_score(env: str, options: Options) -> float:
    """The mean return of a random policy."""
    cfg = parse_args([f"--env={env}"], evaluation=True)
    return _play(cfg, options, random=True).mean_true_reward


def _load_cfg(directory: Path, options: Options) -> Config:
    env = read_cfg_file(directory / CFG_FILE)["env"]
    flags = [
        f"--env={env}",
        f"--experiment={directory.name}",
        f"--train_dir={directory.parent}",
        f"--load_checkpoint_kind={options.checkpoint}",
        f"--eval_deterministic={options.deterministic}",
        "--device=cpu",
    ]
    return resolve(parse_args(flags, evaluation=True), evaluation=True)


def _play(cfg: Config, options: Options, random: bool = False) -> EvaluationResult:
    def make(env_index: int) -> Any:
        return make_env(cfg.env, cfg, EnvConfig(0, env_index, env_index))

    env = make(0)
    try:
        player: Player = random_player(env, options.seed) if random else load_player(cfg, env, options.seed)
    finally:
        env.close()
    return evaluate_policy(
        player, make, num_episodes=options.episodes, num_envs=_ENVS_AT_ONCE, seed=options.seed
    )


def _open_record(cfg: Config, directory: Path) -> RunRecord:
    """The record that training left, or a new one for experiments from before there were records."""
    content = read_json_object(directory / RUN_FILE)
    if content is not None:
        return RunRecord(directory, content, time.time)
    record = begin_training(cfg, directory)
    speed = read_curve(directory, FPS_TAG)
    if speed is not None:
        record.update(
            env_steps=int(speed.env_steps[-1]),
            train_seconds=float(speed.seconds[-1]),
            fps=float(speed.values.mean()),
        )
    record.finish(RunStatus.COMPLETED, 0)
    return record


def _write_evaluation(directory: Path, result: EvaluationResult, options: Options) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "episodes.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["episode", "length", "reward", "true_reward"])
        rows = zip(result.lengths, result.episode_rewards, result.true_rewards, strict=True)
        for number, row in enumerate(rows):
            writer.writerow([number, *row])
    stats = eval_result(result.episode_rewards, result.lengths, result.true_rewards)["imit_stats"]
    write_json(
        directory / "eval.json",
        {
            "format": "sample_factory.eval/1",
            "checkpoint": options.checkpoint,
            "deterministic": options.deterministic,
            "seed": options.seed,
            **stats,
        },
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m sample_factory.benchmark.scoring", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, help="of the experiment")
    parser.add_argument("--random", metavar="ENV", help="measure a random policy on this environment")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", choices=("latest", "best"), default="latest")
    parser.add_argument("--deterministic", action="store_true")
    args = parser.parse_args(argv)
    options = Options(args.episodes, args.seed, args.checkpoint, args.deterministic)
    try:
        score = random_score(args.random, options) if args.random else score_run(args.directory, options)
    except _EXPECTED_ERRORS as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(json.dumps({"score": score}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

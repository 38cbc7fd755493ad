"""Entry point: `sf publish` puts a trained policy into `trained_policies/`, with proof of what it can do.

Writes a directory that evaluation and `load_policy` read like an experiment: cfg.json, spaces.json and a
checkpoint with weights alone, plus the learning curve, the score over 100 episodes beside that of a random
policy, and the command it was trained with. The tables in README files are made anew (`published`).

Invariant: a directory appears complete or not at all, what is scored is what it holds, and it says nothing
about the machine's file system (`config.places`).
"""

from __future__ import annotations

import argparse
import csv
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sample_factory.benchmark.run_record import RUN_FILE, TRAINING_MODULE, read_json_object, strict_json
from sample_factory.config.config import Config, experiment_dir
from sample_factory.config.errors import ConfigError, report_and_exit
from sample_factory.config.experiment_files import CFG_FILE, read_cfg_file, write_json
from sample_factory.config.places import command_without_places, settings_without_places
from sample_factory.envs.registry import MissingPackageError, UnknownEnvError
from sample_factory.evaluation.command_line import experiment_cfg, policy_location, policy_parser
from sample_factory.evaluation.curves import CurveError, learning_curves, plot_learning_curve
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.evaluate import EpisodeRecord, Programme
from sample_factory.evaluation.outputs import write_table
from sample_factory.evaluation.player import is_deterministic, load_model
from sample_factory.evaluation.policy import SPACES_FILE, Signature, load_exportable, spaces_of
from sample_factory.evaluation.published import EPISODES_FILE, RESULT_FILE, write_tables
from sample_factory.evaluation.replay import STANDARD_ERRORS, replay_episodes
from sample_factory.evaluation.source import TRAINED_POLICIES, Location, find_checkpoint
from sample_factory.evaluation.workers import Job, play
from sample_factory.model.checkpoints import Checkpoint, CheckpointError, CheckpointStore
from sample_factory.model.durable_files import write_durably
from sample_factory.monitoring.log import init_logging, logger
from sample_factory.processes.affinity import available_cores

CURVE_PICTURE, CURVE_TABLE = "curve.png", "curve.csv"
FORMAT = "sample_factory.trained_policy/1"
LARGE_MB = 3.0
FULL, HALF, AUTO = "float32", "float16", "auto"

_ENVS_PER_WORKER = 4
_PROGRAM = f"python -m {TRAINING_MODULE}"


@dataclass(frozen=True)
class Publication:
    """What to publish, and as what."""

    location: Location
    directory: Path  # trained_policies/<name>
    checkpoint: str = "latest"
    policy_index: int = 0
    num_episodes: int = 100
    deterministic: bool = False
    seed: int = 0
    weights: str = AUTO


@dataclass(frozen=True)
class _Scores:
    """Episodes of the policy and of chance, on the same seeds."""

    trained: list[EpisodeRecord]
    chance: list[EpisodeRecord]
    seconds_per_episode: float  # of one core


def publish(wanted: Publication) -> dict[str, Any]:
    """Scores a policy and writes its directory; what was measured.

    Raises:
        EvaluationError: there is no such policy, or something has this name already.
    """
    directory, source = wanted.directory, wanted.location.directory
    if directory.exists():
        raise EvaluationError(f"{directory} exists; choose another --name or remove it first.")
    unfinished = directory.with_name(f".{directory.name}.partial")
    shutil.rmtree(unfinished, ignore_errors=True)
    partial = unfinished / directory.name
    try:
        weights = _write_policy(partial, wanted)
        cfg = experiment_cfg(partial, f"--eval_deterministic={wanted.deterministic}", "--device=cpu")
        scores = _play(cfg, wanted)
        result = {"name": directory.name, "weights": weights, "seed": wanted.seed}
        result |= _result(cfg, source, scores)
        _write_curve(partial, source, wanted.policy_index, result)
        write_table(partial / EPISODES_FILE, scores.trained)
        write_json(partial / RESULT_FILE, result)
        partial.rename(directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    write_tables(directory.parent)
    _warn_about(result)
    return result


def _write_policy(directory: Path, wanted: Publication) -> str:
    """Writes what it takes to play; in which precision the weights are."""
    source = wanted.location.directory
    flags = [f"--policy_index={wanted.policy_index}", f"--iter_num={wanted.checkpoint}", "--device=cpu"]
    cfg = experiment_cfg(source, *flags)
    if wanted.location.file is not None:
        cfg.model_path = str(wanted.location.file)
    checkpoint = find_checkpoint(cfg)
    _, signature = load_exportable(Location(source, checkpoint.path))
    saved = settings_without_places(read_cfg_file(source / CFG_FILE))
    write_json(directory / CFG_FILE, saved | {"command_line": training_command(source), "cli_args": {}})
    write_durably(directory / SPACES_FILE, signature.to_json().encode())
    store = CheckpointStore(directory / "checkpoint_p0")
    precision = FULL if wanted.weights == AUTO else wanted.weights
    path = _save_weights(store, checkpoint, _weights(cfg, checkpoint, signature, precision))
    if wanted.weights == AUTO and path.stat().st_size > LARGE_MB * 1e6:
        precision = HALF
        path = _save_weights(store, checkpoint, _weights(cfg, checkpoint, signature, precision))
    if path.stat().st_size > LARGE_MB * 1e6:
        logger().warning(
            "The weights take %.1f MB in %s; a smaller --hidden_size would keep the repository small.",
            path.stat().st_size / 1e6,
            precision,
        )
    return precision


def _save_weights(store: CheckpointStore, checkpoint: Checkpoint, weights: dict[str, Any]) -> Path:
    return store.save(
        {"model": weights}, policy_version=checkpoint.policy_version, env_steps=checkpoint.env_steps
    )


def _weights(cfg: Config, checkpoint: Checkpoint, signature: Signature, precision: str) -> dict[str, Any]:
    """The state of the network, without the optimizer's.

    Half precision is for storage: networks are built in float32 and take the values over. What is no
    parameter, such as counts and means of the normalisation, stays exact.
    """
    weights: dict[str, Any] = dict(checkpoint.state["model"])
    if precision == FULL:
        return weights
    model = load_model(cfg, checkpoint, signature.obs_space, signature.action_space)
    largest = torch.finfo(torch.float16).max
    for name, parameter in model.named_parameters():
        if name in weights and bool((parameter.detach().abs() <= largest).all()):
            weights[name] = weights[name].to(torch.float16)
    return weights


def _play(cfg: Config, wanted: Publication) -> _Scores:
    num_workers = len(available_cores())
    programme = Programme(wanted.num_episodes, _ENVS_PER_WORKER * num_workers, wanted.seed)
    started = time.perf_counter()
    trained = play(Job(cfg, programme), num_workers)
    seconds = (time.perf_counter() - started) * num_workers / wanted.num_episodes
    return _Scores(trained, play(Job(cfg, programme, random=True), num_workers), seconds)


def _result(cfg: Config, source: Path, scores: _Scores) -> dict[str, Any]:
    found = [episode.true_reward for episode in scores.trained]
    by_chance = [episode.true_reward for episode in scores.chance]
    checkpoint = find_checkpoint(cfg)
    _, action_space = spaces_of(cfg, experiment_dir(cfg))
    record = read_json_object(source / RUN_FILE) or {}
    score, spread, chance = float(np.mean(found)), float(np.std(found)), float(np.mean(by_chance))
    result: dict[str, Any] = strict_json(
        {
            "format": FORMAT,
            "env": cfg.env,
            "deterministic": is_deterministic(cfg, action_space),
            "episodes": len(found),
            "score": score,
            "score_std": spread,
            "score_min": min(found),
            "score_max": max(found),
            "mean_length": float(np.mean([episode.length for episode in scores.trained])),
            "random_score": chance,
            "random_score_std": float(np.std(by_chance)),
            "replay_episodes": min(
                len(found), replay_episodes(score, spread, chance, scores.seconds_per_episode)
            ),
            "policy_version": checkpoint.policy_version,
            "env_steps": checkpoint.env_steps,
            "train_seconds": record.get("progress", {}).get("train_seconds"),
            "cpu": record.get("host", {}).get("cpu"),
            "cpu_count": record.get("host", {}).get("cpu_count"),
            "command": training_command(source),
        }
    )
    return result


def training_command(directory: Path) -> str:
    """The command an experiment was trained with, without what says where the files were."""
    flags = str(read_cfg_file(directory / CFG_FILE).get("command_line") or "")
    return f"{_PROGRAM} {command_without_places(flags.removeprefix(_PROGRAM))}".strip()


def _write_curve(directory: Path, source: Path, policy_index: int, result: dict[str, Any]) -> None:
    """The learning curve as a table and, where matplotlib is, as a picture; without metrics there is none."""
    curve = learning_curves(source, policy_index + 1).get(policy_index)
    if curve is None:
        logger().warning("%s has no metrics.jsonl, so there is no curve.", source)
        return
    with (directory / CURVE_TABLE).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["env_steps", "mean_episode_reward"])
        writer.writerows(zip(map(int, curve.env_steps), map(float, curve.values), strict=True))
    try:
        plot_learning_curve(
            {policy_index: curve},
            directory / CURVE_PICTURE,
            title=f"{result['env']}: {result['name']}",
            random_score=result["random_score"],
        )
    except CurveError as error:
        logger().warning("%s", error)


def _warn_about(result: dict[str, Any]) -> None:
    error = np.hypot(result["score_std"], result["random_score_std"]) / np.sqrt(result["episodes"])
    if result["score"] - result["random_score"] <= STANDARD_ERRORS * error:
        logger().warning("%s is not clearly better than a random policy; train for longer.", result["name"])


def _parser() -> argparse.ArgumentParser:
    parser = policy_parser(
        "sf publish", "Put a trained policy into trained_policies/, with its score, curve and command."
    )
    parser.add_argument("--name", required=True, help="of the directory in --folder")
    parser.add_argument("--folder", type=Path, default=Path(TRAINED_POLICIES), help="where to publish")
    parser.add_argument("--episodes", type=int, default=100, help="to score it over")
    parser.add_argument("--eval_seed", type=int, default=0, help="of these episodes")
    parser.add_argument("--eval_deterministic", action="store_true", help="take the most likely actions")
    parser.add_argument(
        "--weights",
        choices=(AUTO, FULL, HALF),
        default=AUTO,
        help=f"how weights are stored; {AUTO}: {FULL}, or {HALF} where that would take over {LARGE_MB:g} MB",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; the exit code."""
    args = _parser().parse_args(argv)
    init_logging(None, log_to_file=False)
    try:
        result = publish(
            Publication(
                location=policy_location(args),
                directory=args.folder / args.name,
                checkpoint=args.iter_num,
                policy_index=args.policy_index,
                num_episodes=args.episodes,
                deterministic=args.eval_deterministic,
                seed=args.eval_seed,
                weights=args.weights,
            )
        )
    except ConfigError as error:
        report_and_exit(error)
    except (EvaluationError, CheckpointError, UnknownEnvError, MissingPackageError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(
        f"{args.folder / args.name}: {result['score']:.2f} over {result['episodes']} episodes "
        f"(a random policy: {result['random_score']:.2f})\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

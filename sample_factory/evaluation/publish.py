"""Entry point: `sf publish` puts a trained policy into `trained_policies/`, with proof of what it can do.

Writes a directory that evaluation and `load_policy` read like an experiment: cfg.json, spaces.json and a
checkpoint with weights alone, plus the learning curve, the score over 100 episodes beside that of a random
policy, and the command it was trained with. The table in the README of `trained_policies/` is made anew.

Invariant: a directory appears complete or not at all, and says nothing about the machine's file system.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.benchmark.run_record import RUN_FILE, read_json_object, strict_json
from sample_factory.config.config import Config, experiment_dir
from sample_factory.config.errors import ConfigError, report_and_exit
from sample_factory.config.experiment_files import CFG_FILE, write_json
from sample_factory.envs.registry import MissingPackageError, UnknownEnvError
from sample_factory.evaluation.command_line import experiment_cfg
from sample_factory.evaluation.curves import CurveError, learning_curves, plot_learning_curve
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.evaluate import EpisodeRecord, Programme
from sample_factory.evaluation.outputs import write_table
from sample_factory.evaluation.player import is_deterministic
from sample_factory.evaluation.policy import SPACES_FILE, Signature, load_exportable
from sample_factory.evaluation.source import TRAINED_POLICIES, Location, find_checkpoint, locate
from sample_factory.evaluation.workers import Job, play
from sample_factory.model.checkpoints import Checkpoint, CheckpointError, CheckpointStore
from sample_factory.model.durable_files import write_durably
from sample_factory.monitoring.log import init_logging, logger
from sample_factory.monitoring.metrics import METRICS_FILE_NAME, read_metrics
from sample_factory.processes.affinity import available_cores

RESULT_FILE = "result.json"
EPISODES_FILE = "episodes.csv"
CURVE_PICTURE, CURVE_TABLE = "curve.png", "curve.csv"
README = "README.md"
FORMAT = "sample_factory.trained_policy/1"

_ENVS_PER_WORKER = 4
_REPLAYED_FRAMES = 3000  # what a test may spend on playing a policy again
_NOT_OURS_TO_TELL = (
    "train_dir",
    "experiments_root",
    "record_to",
    "cli_args",
    "command_line",
    "model_path",
    "git_repo_name",
)
_PLACES = re.compile(r"--(train_dir|experiments_root)[= ]\S+ ?")
_TABLE_START, _TABLE_END = "<!-- scores -->", "<!-- end of scores -->"
_README = f"""# Trained policies

Trained with this code; each directory holds the weights, the settings, the learning curve and the episodes
behind its score. `sf enjoy --model_path=NAME` plays one, `sf evaluate --model_path=NAME` scores it again, and
`sample_factory.load_policy("NAME")` uses it in a program.

{_TABLE_START}
{_TABLE_END}
"""


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


def publish(wanted: Publication) -> dict[str, Any]:
    """Scores a policy and writes its directory; what was measured.

    Raises:
        EvaluationError: there is no such policy, or something has this name already.
    """
    if wanted.directory.exists():
        raise EvaluationError(f"{wanted.directory} exists; choose another --name or remove it first.")
    source = wanted.location.directory
    flags = [
        f"--policy_index={wanted.policy_index}",
        f"--iter_num={wanted.checkpoint}",
        f"--eval_deterministic={wanted.deterministic}",
        "--device=cpu",
    ]
    cfg = experiment_cfg(source, *flags)
    if wanted.location.file is not None:
        cfg.model_path = str(wanted.location.file)
    checkpoint = find_checkpoint(cfg)
    cfg.model_path = str(checkpoint.path)
    programme = Programme(wanted.num_episodes, _ENVS_PER_WORKER * len(available_cores()), wanted.seed)
    trained = play(Job(cfg, programme), len(available_cores()))
    chance = play(Job(cfg, programme, random=True), len(available_cores()))
    _, signature = load_exportable(Location(source, checkpoint.path))
    result = _result(cfg, checkpoint, trained, chance) | {
        "name": wanted.directory.name,
        "deterministic": is_deterministic(cfg, signature.action_space),
        "seed": wanted.seed,
    }
    partial = wanted.directory.with_name(f".{wanted.directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        _write_policy(partial, cfg, checkpoint, signature)
        _write_curve(partial, source, cfg, result)
        write_table(partial / EPISODES_FILE, trained)
        write_json(partial / RESULT_FILE, result)
        partial.rename(wanted.directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    write_readme(wanted.directory.parent)
    return result


def _result(
    cfg: Config, checkpoint: Checkpoint, trained: list[EpisodeRecord], chance: list[EpisodeRecord]
) -> dict[str, Any]:
    scores = [episode.true_reward for episode in trained]
    random_scores = [episode.true_reward for episode in chance]
    length = float(np.mean([episode.length for episode in trained]))
    record = read_json_object(experiment_dir(cfg) / RUN_FILE) or {}
    result: dict[str, Any] = strict_json(
        {
            "format": FORMAT,
            "env": cfg.env,
            "episodes": len(scores),
            "score": float(np.mean(scores)),
            "score_std": float(np.std(scores)),
            "score_min": min(scores),
            "score_max": max(scores),
            "mean_length": length,
            "random_score": float(np.mean(random_scores)),
            "random_score_std": float(np.std(random_scores)),
            "replay_episodes": int(np.clip(_REPLAYED_FRAMES / length, 2, min(10, len(scores)))),
            "policy_version": checkpoint.policy_version,
            "env_steps": checkpoint.env_steps,
            "train_seconds": record.get("progress", {}).get("train_seconds"),
            "cpu": record.get("host", {}).get("cpu"),
            "cpu_count": record.get("host", {}).get("cpu_count"),
            "command": training_command(cfg),
        }
    )
    return result


def training_command(cfg: Config) -> str:
    """The command the policy was trained with, without what says where the files were."""
    flags = _PLACES.sub("", read_saved(cfg).get("command_line") or "").strip()
    return f"python -m sample_factory.algorithms.appo.train_appo {flags}"


def read_saved(cfg: Config) -> dict[str, Any]:
    """The experiment's cfg.json as it is on disk."""
    saved: dict[str, Any] = json.loads((experiment_dir(cfg) / CFG_FILE).read_text(encoding="utf-8"))
    return saved


def _write_policy(directory: Path, cfg: Config, checkpoint: Checkpoint, signature: Signature) -> None:
    saved = {name: value for name, value in read_saved(cfg).items() if name not in _NOT_OURS_TO_TELL}
    write_json(directory / CFG_FILE, saved | {"command_line": training_command(cfg), "cli_args": {}})
    write_durably(directory / SPACES_FILE, signature.to_json().encode())
    CheckpointStore(directory / "checkpoint_p0").save(
        {"model": checkpoint.state["model"]},
        policy_version=checkpoint.policy_version,
        env_steps=checkpoint.env_steps,
    )


def _write_curve(directory: Path, source: Path, cfg: Config, result: dict[str, Any]) -> None:
    """The learning curve as a table and, where matplotlib is, as a picture; without metrics there is none."""
    curve = learning_curves(read_metrics(source / METRICS_FILE_NAME)).get(cfg.get("policy_index", 0))
    if curve is None:
        logger().warning("%s has no %s, so there is no curve.", source, METRICS_FILE_NAME)
        return
    with (directory / CURVE_TABLE).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["env_steps", "mean_episode_reward"])
        writer.writerows(zip(curve.env_steps, curve.values, strict=True))
    try:
        plot_learning_curve(
            source / METRICS_FILE_NAME,
            directory / CURVE_PICTURE,
            title=f"{cfg.env}: {result['name']}",
            random_score=result["random_score"],
        )
    except CurveError as error:
        logger().warning("%s", error)


def published(folder: Path) -> list[dict[str, Any]]:
    """What was measured of every policy in a folder, by name."""
    found = (read_json_object(path) for path in sorted(folder.glob(f"*/{RESULT_FILE}")))
    return [result for result in found if result is not None]


def write_readme(folder: Path) -> None:
    """Makes the table of scores anew; other text in the file stays."""
    path = folder / README
    text = path.read_text(encoding="utf-8") if path.exists() else _README
    before, _, rest = text.partition(_TABLE_START)
    _, _, after = rest.partition(_TABLE_END)
    rows = [
        "| policy | environment | score | random policy | frames | episodes |",
        "|---|---|---|---|---|---|",
    ]
    for result in published(folder):
        name = result["name"]
        rows.append(
            f"| [{name}]({name}) | `{result['env']}` | {result['score']:.2f} ± {result['score_std']:.2f} "
            f"| {result['random_score']:.2f} ± {result['random_score_std']:.2f} "
            f"| {result['env_steps']:,} | {result['episodes']} |"
        )
    commands = [f"    # {result['name']}\n    {result['command']}" for result in published(folder)]
    table = "\n".join([*rows, "", "Trained with", "", "\n\n".join(commands)])
    write_durably(path, f"{before}{_TABLE_START}\n{table}\n{_TABLE_END}{after}".encode())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sf publish",
        description="Put a trained policy into trained_policies/, with its score, curve and command.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--experiment", help="name of the experiment")
    parser.add_argument("--train_dir", default="./train_dir", help="where experiments are")
    parser.add_argument("--model_path", help="instead of --experiment: a directory or checkpoint file")
    parser.add_argument("--name", required=True, help="of the directory in --folder")
    parser.add_argument("--folder", type=Path, default=Path(TRAINED_POLICIES), help="where to publish")
    parser.add_argument("--iter_num", default="latest", help="which checkpoint: latest, best, an SGD step")
    parser.add_argument("--policy_index", type=int, default=0, help="which policy of the experiment")
    parser.add_argument("--episodes", type=int, default=100, help="to score it over")
    parser.add_argument("--eval_seed", type=int, default=0, help="of these episodes")
    parser.add_argument("--eval_deterministic", action="store_true", help="take the most likely actions")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; the exit code."""
    args = _parser().parse_args(argv)
    init_logging(None, log_to_file=False)
    try:
        if not (args.experiment or args.model_path):
            raise EvaluationError("--experiment is missing: name one, for example --experiment=cartpole.")
        result = publish(
            Publication(
                location=locate(args.model_path or Path(args.train_dir) / args.experiment),
                directory=args.folder / args.name,
                checkpoint=args.iter_num,
                policy_index=args.policy_index,
                num_episodes=args.episodes,
                deterministic=args.eval_deterministic,
                seed=args.eval_seed,
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

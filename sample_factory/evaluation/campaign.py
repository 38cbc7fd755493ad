"""Scores a policy without showing it: many episodes, in parallel, with the results in files.

`sample_factory.evaluate` is the command for it. For each checkpoint that the flags name it plays the same
episodes and writes `eval/<name>/` in the experiment's directory.

Invariant: what can be refused is refused before the first step.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sample_factory.config.config import Config, experiment_dir
from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.make import make_env
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.evaluate import EpisodeRecord, Programme
from sample_factory.evaluation.outputs import statistics, write_evaluation, write_table
from sample_factory.evaluation.player import is_deterministic
from sample_factory.evaluation.recording import Recording
from sample_factory.evaluation.source import ALL, all_checkpoints, find_checkpoint
from sample_factory.evaluation.trajectories import write_minari
from sample_factory.evaluation.viewing import viewing_plan
from sample_factory.evaluation.workers import Job, play
from sample_factory.model.checkpoints import Checkpoint, load_checkpoint
from sample_factory.monitoring.log import logger
from sample_factory.processes.affinity import available_cores

EVAL_DIR = "eval"
ENVS_PER_WORKER = 8


@dataclass(frozen=True)
class Evaluation:
    """The episodes of one checkpoint and where they were written down."""

    directory: Path
    checkpoint: Checkpoint
    episodes: list[EpisodeRecord]
    facts: dict[str, Any]

    def summary(self) -> dict[str, Any]:
        """What the policy is and how well it did."""
        return {"directory": str(self.directory), **self.facts, **statistics(self.episodes)}


def evaluate(cfg: Config) -> list[Evaluation]:
    """Plays and writes as the flags say; one evaluation, or one per checkpoint with `--iter_num=all`.

    Args:
        cfg: completed by the experiment's cfg.json.

    Raises:
        EvaluationError: there is no such policy, or it can't be played or recorded.
    """
    name = cfg.get("eval_name") or f"{datetime.now():%Y%m%d_%H%M%S}"
    directory = experiment_dir(cfg) / EVAL_DIR / name
    if cfg.get("iter_num") != ALL:
        return [_evaluate_one(cfg, find_checkpoint(cfg), directory)]
    found = [load_checkpoint(path) for path in all_checkpoints(cfg)]
    return [_evaluate_one(cfg, each, directory / f"{each.policy_version:09d}") for each in found]


def _evaluate_one(cfg: Config, checkpoint: Checkpoint, directory: Path) -> Evaluation:
    job, num_workers = _plan(cfg, checkpoint, directory)
    started = time.monotonic()
    episodes = play(job, num_workers)
    if not episodes:
        raise EvaluationError(
            f"No episode ended within --max_num_frames={cfg.max_num_frames}; use a larger value."
        )
    facts = _facts(cfg, job, checkpoint) | {
        "num_workers": num_workers,
        "seconds": round(time.monotonic() - started, 3),
        "complete": len(episodes) == job.programme.num_episodes,
    }
    if not facts["complete"]:
        logger().warning("--max_num_frames ended the evaluation: episodes that were short are favoured.")
    write_evaluation(directory, episodes, facts)
    if cfg.get("csv_folder_name"):
        table = experiment_dir(cfg) / cfg.csv_folder_name / f"eval_p{cfg.get('policy_index', 0)}.csv"
        write_table(table, episodes)
    if cfg.get("save_traj") and cfg.traj_format == "minari":
        _write_minari(cfg, job, episodes, directory.name)
    return Evaluation(directory, checkpoint, episodes, facts)


def _plan(cfg: Config, checkpoint: Checkpoint, directory: Path) -> tuple[Job, int]:
    """What to play, and in how many processes; `--num_workers` of the training says nothing about it."""
    num_episodes = cfg.cli_args.get("max_num_episodes") or cfg.sample_env_episodes
    per_worker = cfg.cli_args.get("num_envs_per_worker") or ENVS_PER_WORKER
    num_workers = cfg.cli_args.get("num_workers") or min(
        len(available_cores()), math.ceil(num_episodes / per_worker)
    )
    recording = Recording.make(cfg, directory)
    settings = Config.from_dict(cfg.to_dict() | {"model_path": str(checkpoint.path)})
    unseen = Config.from_dict(cfg.to_dict() | {"no_render": True, "save_video": False})
    plan = viewing_plan(unseen, has_display=False)
    settings.env_frameskip = plan.env_frameskip
    return Job(
        cfg=settings,
        programme=Programme(num_episodes, per_worker * num_workers, cfg.get("eval_seed") or 0),
        recording=recording,
        render_mode="rgb_array" if recording.needs_pictures else None,
        max_frames=cfg.max_num_frames,
        action_repeat=plan.action_repeat,
    ), num_workers


def _facts(cfg: Config, job: Job, checkpoint: Checkpoint) -> dict[str, Any]:
    env = job.make_env(0)
    try:
        deterministic = is_deterministic(cfg, env.action_space)
    finally:
        env.close()
    return {
        "env": cfg.env,
        "experiment": cfg.experiment,
        "policy_index": cfg.get("policy_index", 0),
        "checkpoint": checkpoint.path.name,
        "policy_version": checkpoint.policy_version,
        "env_steps": checkpoint.env_steps,
        "deterministic": deterministic,
        "seed": job.programme.seed,
        "num_envs": len(job.programme.envs),
    }


def _write_minari(cfg: Config, job: Job, episodes: list[EpisodeRecord], name: str) -> None:
    words = [
        "".join(letter if letter.isalnum() else "_" for letter in word)
        for word in (cfg.env, cfg.experiment, name)
    ]
    env = make_env(cfg.env, job.cfg, EnvConfig(0, 0, 0))
    try:
        files = [job.recording.trajectory_file(episode.episode) for episode in episodes]
        dataset = write_minari(f"{words[0]}/{words[1]}_{words[2]}-v0", files, env)
    finally:
        env.close()
    logger().info("Wrote the Minari dataset %s", dataset)

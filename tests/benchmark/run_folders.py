"""Folders of runs to read: ours, imitation's, the zoo's."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.benchmark.run_record import FORMAT, RunStatus, eval_result
from sample_factory.monitoring.metrics import METRICS_FILE_NAME, append_metrics


class FakeClock:
    """Unix time that passes only when told."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def write_run(
    directory: Path,
    *,
    algo: str = "APPO",
    env: str = "doom_basic",
    seed: int = 0,
    score: float | None = 1.0,
    status: RunStatus = RunStatus.COMPLETED,
    config: Mapping[str, Any] | None = None,
) -> Path:
    """One of our run records, whose evaluation had a single episode with this score."""
    directory.mkdir(parents=True)
    record = {
        "format": FORMAT,
        "id": uuid.uuid4().hex,
        "command": algo,
        "status": status.value,
        "start_time": "2026-01-02T03:04:05+00:00",
        "experiment": {"name": directory.name, "mainfile": "sample_factory.algorithms.appo.train_appo"},
        "host": {"hostname": "n1", "cpu": "some cpu", "gpus": []},
        "job": {"attempt": 1, "pid": 1},
        "meta": {"seed": seed},
        "progress": {"env_steps": 1_000_000, "train_seconds": 1800.0, "fps_mean": 555.0},
        "result": eval_result([score], [100]) if score is not None else None,
    }
    settings = {"algo": algo, "env": env, "environment": {"gym_id": env}, "seed": seed, **(config or {})}
    (directory / "run.json").write_text(json.dumps(record))
    (directory / "config.json").write_text(json.dumps(settings))
    return directory


def write_grid(root: Path, scores: Mapping[tuple[str, str], Sequence[float]]) -> Path:
    """Our records of several algorithms and environments: `{(algo, env): scores}`."""
    for (algo, env), values in scores.items():
        for seed, score in enumerate(values):
            write_run(root / algo / env / f"seed_{seed}", algo=algo, env=env, seed=seed, score=score)
    return root


def write_imitation_run(
    directory: Path,
    *,
    algo: str,
    env: str,
    score: float | None,
    expert: float,
    status: str = "COMPLETED",
    seed: int = 0,
) -> Path:
    """A run folder as sacred and imitation leave it."""
    directory.mkdir(parents=True)
    stats = {"monitor_return_mean": score, "n_traj": 56} if score is not None else None
    result = {"imit_stats": stats, "expert_stats": {"monitor_return_mean": expert}} if stats else None
    run = {
        "command": algo,
        "status": status,
        "result": result,
        "meta": {},
        "start_time": "2023-10-12T12:12:26",
    }
    (directory / "run.json").write_text(json.dumps(run))
    (directory / "config.json").write_text(json.dumps({"environment": {"gym_id": env}, "seed": seed}))
    (directory / "cout.txt").write_text("output\n")
    return directory


def write_zoo_run(directory: Path, final: Sequence[float]) -> Path:
    """The evaluations of one training of SB3's zoo; the last evaluation has these returns."""
    directory.mkdir(parents=True)
    results = np.array([np.zeros(len(final)), final])
    np.savez(directory / "evaluations.npz", timesteps=[1000, 2000], results=results, ep_lengths=results)
    return directory


def write_curve(directory: Path, points: Sequence[tuple[int, float, float]]) -> None:
    """A metrics.jsonl with (env_steps, time, reward)."""
    for env_steps, time, reward in points:
        line = {"time": time, "env_steps": env_steps, "policy": 0, "0_aux/avg_reward": reward}
        append_metrics(directory / METRICS_FILE_NAME, line)

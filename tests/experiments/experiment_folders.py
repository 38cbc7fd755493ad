"""Experiment directories as sessions leave them, without training anything."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sample_factory.benchmark.run_record import FORMAT, RunStatus, train_result
from sample_factory.monitoring.metrics import append_metrics

START = 1_700_000_000.0


def write_experiment(
    directory: Path,
    *,
    env: str = "gym_CartPole-v1",
    seed: int | None = 1,
    scores: Sequence[float] = (1.0, 2.0, 3.0),
    status: str = RunStatus.COMPLETED,
    trace: Sequence[str] = (),
    policies: int = 1,
    **settings: Any,
) -> Path:
    """An experiment whose policies scored these at 1000, 2000, ... frames, a minute apart."""
    directory.mkdir(parents=True)
    config: dict[str, Any] = {
        "algo": "APPO",
        "env": env,
        "experiment": directory.name,
        "seed": seed,
        "train_for_env_steps": 10_000,
        "num_policies": policies,
        "learning_rate": 1e-4,
        "command_line": f"--env={env} --algo=APPO --experiment={directory.name}",
        "cli_args": {"env": env, "experiment": directory.name},
        **settings,
    }
    (directory / "cfg.json").write_text(json.dumps(config))
    (directory / "config.json").write_text(json.dumps(config | {"environment": {"gym_id": env}}))
    record: dict[str, Any] = {
        "format": FORMAT,
        "id": str(directory),
        "command": "APPO",
        "status": str(status),
        "start_time": "2023-11-14T22:13:20+00:00",
        "host": {"hostname": socket.gethostname()},
        "job": {"pid": 1},
        "meta": {"seed": seed},
        "progress": {"env_steps": 1000 * len(scores), "train_seconds": 125.0, "fps_mean": 17.0},
        "result": train_result(scores[-1], 100, low=0.0, high=9.0) if scores else None,
    }
    if trace:
        record["fail_trace"] = list(trace)
    (directory / "run.json").write_text(json.dumps(record))
    for number, score in enumerate(scores, start=1):
        for policy in range(policies):
            write_metrics(directory, 1000 * number, policy, {"0_aux/avg_reward": score + policy})
        write_metrics(directory, 1000 * number, 0, {"0_aux/_fps": 100.0 * number})
    (directory / "sf_log.txt").write_text("[2026-01-01 00:00:00,000][00001] Starting\n")
    return directory


def write_metrics(directory: Path, env_steps: int, policy: int, values: Mapping[str, float]) -> None:
    """One line of metrics.jsonl, whose time is its frames in units of 1000 per minute."""
    record = {"time": START + 0.06 * env_steps, "env_steps": env_steps, "policy": policy, **values}
    append_metrics(directory / "metrics.jsonl", record)


def write_event(directory: Path, seconds: float, policy: int, kind: str, **more: Any) -> None:
    """One line of pbt_events.jsonl."""
    event = {
        "time": START + seconds,
        "policy": policy,
        "event": kind,
        "donor": None,
        "env_steps": int(seconds * 100),
        "objectives": [1.0, 2.0],
        "hyper_parameters": {"learning_rate": 1e-4, "gamma": 0.99},
    }
    with (directory / "pbt_events.jsonl").open("a") as file:
        file.write(json.dumps(event | more) + "\n")


def write_population(directory: Path) -> Path:
    """Two policies: the first is replaced by the second after a minute, which mutates after two."""
    write_experiment(directory, policies=2, with_pbt=True)
    tuned = {"zz_pbt/cfg_learning_rate": 1e-4, "zz_pbt/cfg_gamma": 0.99}
    for policy in range(2):
        write_metrics(directory, 0, policy, tuned | {"zz_pbt/cfg_learning_rate": (policy + 1) * 1e-4})
    write_event(
        directory, 60, 0, "replaced", donor=1, hyper_parameters={"learning_rate": 2e-4, "gamma": 0.99}
    )
    write_event(directory, 120, 1, "mutated", hyper_parameters={"learning_rate": 3e-4, "gamma": 0.99})
    (directory / "policy_00_cfg.json").write_text(json.dumps({"learning_rate": 2e-4, "gamma": 0.99}))
    return directory

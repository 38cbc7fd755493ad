"""The record of one run: `run.json` and `config.json` in its directory, beside what v1 writes there.

Training sessions, wrapped scripts and the scoring of finished runs write it; every benchmark command reads it
(`runs`). The layout is that of sacred and imitation, so their tools read it too; `metrics.jsonl` comes from
`monitoring.metrics` and `cout.txt` from whoever owns the output.

Invariant: run.json is whole at any moment, strict JSON, without secrets; writing it never stops a training.
"""

from __future__ import annotations

import json
import math
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.benchmark.host import describe_code, describe_host, describe_job, package_versions
from sample_factory.config.config import Config
from sample_factory.config.errors import ConfigError
from sample_factory.config.experiment_files import write_json
from sample_factory.config.places import words_of
from sample_factory.config.redaction import without_secrets
from sample_factory.monitoring.log import logger

RUN_FILE = "run.json"
CONFIG_FILE = "config.json"
OUTPUT_FILE = "cout.txt"
FORMAT = "sample_factory.run/1"
HEARTBEAT_SEC = 30.0
# Set by `benchmark run` to tell apart configurations of the same algorithm.
ALGO_LABEL_VARIABLE = "SF_ALGO_LABEL"
TRAINING_MODULE = "sample_factory.algorithms.appo.train_appo"


class RunStatus(StrEnum):
    """The states of a run; readers add STALE and UNREADABLE, which nobody writes."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    INTERRUPTED = "INTERRUPTED"
    TIMEOUT = "TIMEOUT"


@dataclass(frozen=True)
class RunFacts:
    """What is known about a run before it starts.

    Attributes:
        command: the label by which tables group runs; usually the algorithm.
        name: of the experiment.
        mainfile: module or script that runs.
        run_name: the run, of many experiments, that this one belongs to.
        params: what this run varies, for example environment and seed.
        argv: the command line.
        determinism: what the seed fixes: "weights", or "full" where a rerun is bit-equal.
    """

    command: str
    name: str
    mainfile: str
    seed: int | None = None
    run_name: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    argv: Sequence[str] = ()
    determinism: str = "weights"


class RunRecord:
    """Writes one run's run.json; made by `begin` or `begin_training`."""

    def __init__(self, directory: Path, content: dict[str, Any], clock: Callable[[], float]) -> None:
        self.directory = directory
        self.content = content
        self._clock = clock
        self._last_write = -math.inf
        self._earlier_seconds = float((content.get("progress") or {}).get("train_seconds") or 0.0)
        self._in_trouble = False

    @classmethod
    def begin(
        cls,
        directory: Path,
        config: Mapping[str, Any],
        facts: RunFacts,
        clock: Callable[[], float] = time.time,
    ) -> RunRecord:
        """Writes config.json and a run.json that says RUNNING.

        A directory with a record of an earlier attempt is continued: its id, the first start, the seconds
        trained and the count of attempts are kept.

        Args:
            directory: of the run; must exist.
            config: all settings; `environment.gym_id` is added from `env` where it is missing.
            facts: what this run is.
            clock: unix time.
        """
        earlier = read_json_object(directory / RUN_FILE) or {}
        now = iso_time(clock())
        attempt = int((earlier.get("job") or {}).get("attempt") or 0) + 1
        content = {
            "format": FORMAT,
            "id": earlier.get("id") or uuid.uuid4().hex,
            "command": facts.command,
            "status": RunStatus.RUNNING.value,
            "start_time": earlier.get("start_time") or now,
            "stop_time": None,
            "heartbeat": now,
            "experiment": {
                "name": facts.name,
                "run_name": facts.run_name,
                "mainfile": facts.mainfile,
                "base_dir": os.getcwd(),
                "sources": [],
                "repositories": describe_code(Path.cwd()),
                "dependencies": package_versions(),
            },
            "host": describe_host(),
            "meta": {
                "seed": facts.seed,
                "params": without_secrets(facts.params),
                "argv": list(facts.argv),
                "determinism": facts.determinism,
            },
            "job": describe_job() | {"attempt": attempt},
            "progress": earlier.get("progress"),
            "result": earlier.get("result"),
            "resources": [],
            "artifacts": list(earlier.get("artifacts") or []),
            "exit_code": None,
        }
        record = cls(directory, content, clock)
        record._write(CONFIG_FILE, _config_content(config, facts.seed))
        record.save()
        return record

    def update(self, *, env_steps: int, train_seconds: float, fps: float | None = None) -> None:
        """Notes progress; cheap enough to call every second, written every `HEARTBEAT_SEC`.

        Args:
            env_steps: frames trained on, over all attempts.
            train_seconds: of this attempt.
            fps: mean frames per second of this attempt.
        """
        self.content["progress"] = {
            "env_steps": env_steps,
            "train_seconds": self._earlier_seconds + train_seconds,
            "fps_mean": fps,
        }
        if self._clock() - self._last_write >= HEARTBEAT_SEC:
            self.save()

    def finish(
        self,
        status: RunStatus,
        exit_code: int,
        *,
        result: Mapping[str, Any] | None = None,
        fail_trace: str = "",
    ) -> None:
        """Notes how the run ended; a result of an earlier attempt stays unless there is a new one."""
        self.content |= {"status": status.value, "stop_time": iso_time(self._clock()), "exit_code": exit_code}
        self.content.pop("fail_trace", None)
        if fail_trace:
            self.content["fail_trace"] = fail_trace.splitlines()
        if result is not None:
            self.content["result"] = dict(result)
        self.save()

    def add_artifact(self, path: Path) -> None:
        """Lists a file of the run's directory."""
        name = os.path.relpath(path, self.directory)
        if name not in self.content["artifacts"]:
            self.content["artifacts"].append(name)

    def save(self) -> None:
        """Writes run.json now."""
        self._last_write = self._clock()
        self.content["heartbeat"] = iso_time(self._last_write)
        self._write(RUN_FILE, self.content)

    def _write(self, name: str, content: Any) -> None:
        try:
            write_json(self.directory / name, strict_json(content))
            self._in_trouble = False
        except ConfigError as error:
            if not self._in_trouble:
                logger().error("The run's record is not written: %s", error)
            self._in_trouble = True


def begin_training(cfg: Config, directory: Path, clock: Callable[[], float] = time.time) -> RunRecord:
    """The record of a training session, from its resolved configuration.

    The session calls this when the experiment directory is ready, then `update` from its main loop, and
    `finish` with `train_result` at the end.
    """
    typed = dict(cfg.get("cli_args") or {})
    facts = RunFacts(
        command=os.environ.get(ALGO_LABEL_VARIABLE) or cfg.algo,
        name=cfg.experiment,
        mainfile=TRAINING_MODULE,
        seed=cfg.get("seed"),
        run_name=Path(cfg.get("experiments_root") or "").parts[0] if cfg.get("experiments_root") else "",
        params=typed,
        argv=words_of(str(cfg.get("command_line") or "")),
        determinism="full" if cfg.get("serial_mode") else "weights",
    )
    return RunRecord.begin(directory, cfg.to_dict(), facts, clock)


def train_result(score: float, num_episodes: int, *, low: float, high: float) -> dict[str, Any] | None:
    """The result of a training that was not evaluated: its latest episodes; None without any."""
    if num_episodes == 0 or not math.isfinite(score):
        return None
    window = {"monitor_return_min": low, "monitor_return_mean": score, "monitor_return_max": high}
    stats = {"n_traj": num_episodes, **window, "monitor_return_len": num_episodes}
    return {
        "score": score,
        "score_source": "train",
        "imit_stats": stats,
        "expert_stats": None,
        "random_stats": None,
    }


def eval_result(
    returns: Sequence[float], lengths: Sequence[int], true_returns: Sequence[float] | None = None
) -> dict[str, Any]:
    """The result of an evaluation, from its episodes.

    Args:
        returns: sums of the rewards the policy was trained on.
        lengths: of the episodes.
        true_returns: what runs are ranked by; the same if not given.
    """
    ranked = returns if true_returns is None else true_returns
    stats: dict[str, Any] = {"n_traj": len(returns)}
    stats |= _spread("return", returns) | _spread("len", lengths) | _spread("monitor_return", ranked)
    stats["monitor_return_len"] = len(ranked)
    return {
        "score": stats["monitor_return_mean"],
        "score_source": "eval",
        "imit_stats": stats,
        "expert_stats": None,
        "random_stats": None,
    }


def read_json_object(path: Path) -> dict[str, Any] | None:
    """A JSON file that holds an object; None if it does not exist or is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def iso_time(unix_time: float) -> str:
    """A moment as ISO 8601 in UTC."""
    return datetime.fromtimestamp(unix_time, UTC).isoformat()


def strict_json(value: Any) -> Any:
    """A copy with sorted keys, plain numbers, and null for NaN and infinities, which JSON does not have."""
    if isinstance(value, Mapping):
        return {str(key): strict_json(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [strict_json(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic):
        return strict_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _config_content(config: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    content = without_secrets(config)
    if "env" in content and not isinstance(content.get("environment"), Mapping):
        content["environment"] = {"gym_id": content["env"]}
    content.setdefault("seed", seed)
    return content


def _spread(name: str, values: Sequence[float]) -> dict[str, float]:
    array = np.asarray(values, dtype=np.float64)
    return {
        f"{name}_min": float(array.min()),
        f"{name}_mean": float(array.mean()),
        f"{name}_std": float(array.std()),
        f"{name}_max": float(array.max()),
    }

"""One function per format of runs: our record, sacred and imitation, SB3's zoo, v1 experiments, CSV.

`find_runs` offers every directory and file to them; they know nothing of each other. A record's score is
looked up where its own program puts it, or at the dotted path the user names.

Invariant: reading changes nothing on disk and never raises for a damaged run.
"""

from __future__ import annotations

import csv
import math
import re
import socket
import time
import zipfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.benchmark.curves import last_value
from sample_factory.benchmark.errors import BenchmarkError
from sample_factory.benchmark.host import process_is_alive
from sample_factory.benchmark.run_record import CONFIG_FILE, RUN_FILE, RunStatus, read_json_object
from sample_factory.benchmark.runs import STALE, UNREADABLE, FoundRuns, ReadOptions, Run
from sample_factory.config.experiment_files import CFG_FILE

ZOO_FILE = "evaluations.npz"
STALE_AFTER_SEC = 300.0

_RETURN_KEYS = ("result.imit_stats.monitor_return_mean", "result.monitor_return_mean")
_DONE_FILE = "done"


def read_directory(directory: Path, options: ReadOptions, found: FoundRuns) -> None:
    """Adds the run of this very directory, if it is one."""
    has_config = (directory / CONFIG_FILE).exists() or (directory / CFG_FILE).exists()
    if (directory / RUN_FILE).exists():
        if has_config:
            found.runs.append(read_record(directory, options))
        else:
            found.warnings.append(
                f"{directory} has a {RUN_FILE} but neither {CONFIG_FILE} nor {CFG_FILE}: skipped."
            )
    elif (directory / CFG_FILE).exists():
        found.runs.append(read_experiment(directory, options))
    elif (directory / CONFIG_FILE).exists():
        found.warnings.append(f"{directory} has a {CONFIG_FILE} but no {RUN_FILE}: skipped.")
    if (directory / ZOO_FILE).exists():
        found.runs.append(read_zoo(directory / ZOO_FILE))


def read_file(path: Path, options: ReadOptions) -> list[Run]:
    """The runs in a file that the user named.

    Raises:
        BenchmarkError: nothing here reads such a file.
    """
    if path.suffix == ".npz":
        return [read_zoo(path)]
    if path.suffix == ".csv":
        return read_csv(path, options)
    raise BenchmarkError(f"{path} is no folder of runs; files must be .csv or .npz.")


def read_record(directory: Path, options: ReadOptions) -> Run:
    """A directory with run.json, ours or of sacred and imitation."""
    record = read_json_object(directory / RUN_FILE)
    config = read_json_object(directory / CONFIG_FILE) or read_json_object(directory / CFG_FILE)
    if record is None or config is None:
        damaged = RUN_FILE if record is None else CONFIG_FILE
        return _unreadable(directory, f"{damaged} is not valid JSON")
    algo = _find(options.algo_key or "command", record, config)
    env = _find(options.env_key or "environment.gym_id", config, record) or config.get("env")
    score, source = _score(directory, record, config, options)
    return Run(
        path=directory,
        algo=grouped_label(str(algo or "unknown"), config, options),
        env=str(env or "unknown"),
        seed=_integer(_first(config.get("seed"), dig(record, "meta.seed"))),
        status=_status(record),
        score=score,
        score_source=source,
        expert_score=_number(dig(record, "result.expert_stats.monitor_return_mean")),
        random_score=_number(dig(record, "result.random_stats.monitor_return_mean")),
        env_steps=_integer(dig(record, "progress.env_steps")),
        train_seconds=_number(dig(record, "progress.train_seconds")),
        fps=_number(dig(record, "progress.fps_mean")),
        episodes=_integer(dig(record, "result.imit_stats.n_traj")),
        problem=_last_line(record.get("fail_trace")),
        config=config,
        record=record,
    )


def read_experiment(directory: Path, options: ReadOptions) -> Run:
    """An experiment directory without run.json, as v1 leaves it; scores come from training."""
    config = read_json_object(directory / CFG_FILE)
    if config is None:
        return _unreadable(directory, f"{CFG_FILE} is not valid JSON")
    done = (directory / _DONE_FILE).exists()
    score = last_value(directory, options.score_tag) if options.score != "eval" else None
    return Run(
        path=directory,
        algo=grouped_label(str(config.get("algo", "unknown")), config, options),
        env=str(config.get("env", "unknown")),
        seed=_integer(config.get("seed")),
        status=RunStatus.COMPLETED if done else RunStatus.INTERRUPTED,
        score=score,
        score_source="train",
        config=config,
    )


def read_zoo(path: Path) -> Run:
    """An evaluations.npz of SB3's zoo, in `<algo>/<env>_<number>`; its last evaluation counts."""
    match = re.fullmatch(r"(?P<env>.+?)_(?P<number>\d+)", path.parent.name)
    env = match["env"] if match else path.parent.name
    try:
        with np.load(path, allow_pickle=False) as arrays:
            results, steps = np.asarray(arrays["results"], np.float64), np.asarray(arrays["timesteps"])
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        return _unreadable(path, f"{ZOO_FILE} can't be read ({error})")
    if results.size == 0:
        return _unreadable(path, f"{ZOO_FILE} holds no evaluation")
    return Run(
        path=path,
        algo=path.parent.parent.name or "unknown",
        env=env,
        seed=int(match["number"]) if match else None,
        score=float(results[-1].mean()),
        score_source="eval",
        env_steps=int(steps[-1]),
        episodes=int(results[-1].size),
    )


def read_csv(path: Path, options: ReadOptions) -> list[Run]:
    """A table with columns `algo,env,score` and perhaps `seed`, `expert_score`, `status`, `score_source`.

    Raises:
        BenchmarkError: a column is missing, or a score is no number.
    """
    columns = {
        "algo": options.algo_key or "algo",
        "env": options.env_key or "env",
        "score": options.score_key or "score",
    }
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file, skipinitialspace=True)
        missing = [name for name in columns.values() if name not in (reader.fieldnames or [])]
        if missing:
            raise BenchmarkError(
                f"{path} has no column {missing[0]}; it has {', '.join(reader.fieldnames or ['none'])}."
            )
        return [_csv_run(path, row, columns, reader.line_num) for row in reader]


def dig(content: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, or None."""
    value: Any = content
    for name in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def grouped_label(algo: str, config: Mapping[str, Any], options: ReadOptions) -> str:
    """The algorithm's label with the settings that tell its groups apart, `APPO use_rnn=False`."""
    return " ".join([algo, *(f"{name}={dig(config, name)}" for name in options.group_by)])


def _csv_run(path: Path, row: Mapping[str, str], columns: Mapping[str, str], line: int) -> Run:
    text = row[columns["score"]] or ""
    score = _number(text)
    if score is None and text.strip():
        raise BenchmarkError(f"{path} line {line}: {text!r} is no score; write a number or leave it empty.")
    return Run(
        path=path,
        algo=row[columns["algo"]],
        env=row[columns["env"]],
        seed=_integer(row.get("seed")),
        status=row.get("status") or RunStatus.COMPLETED,
        score=score,
        score_source=row.get("score_source") or "eval",
        expert_score=_number(row.get("expert_score")),
    )


def _score(
    directory: Path, record: Mapping[str, Any], config: Mapping[str, Any], options: ReadOptions
) -> tuple[float | None, str | None]:
    if options.score_key is not None:
        return _number(_find(options.score_key, record, config)), "eval"
    source = dig(record, "result.score_source") or "eval"
    if options.score == "train" and source != "train":
        return last_value(directory, options.score_tag), "train"
    if options.score == "eval" and source != "eval":
        return None, "eval"
    values = (_number(dig(record, key)) for key in ("result.score", *_RETURN_KEYS))
    return next((value for value in values if value is not None), None), source


def _status(record: Mapping[str, Any]) -> str:
    status = str(record.get("status") or "UNKNOWN")
    if status != RunStatus.RUNNING:
        return status
    try:
        heartbeat = datetime.fromisoformat(str(record.get("heartbeat"))).timestamp()
    except ValueError:
        return status
    if time.time() - heartbeat < STALE_AFTER_SEC:
        return status
    pid = _integer(dig(record, "job.pid"))
    on_this_machine = dig(record, "host.hostname") == socket.gethostname()
    return status if on_this_machine and pid is not None and process_is_alive(pid) else STALE


def _unreadable(path: Path, problem: str) -> Run:
    return Run(path=path, algo="unknown", env="unknown", status=UNREADABLE, problem=problem)


def _find(path: str, *contents: Mapping[str, Any]) -> Any:
    return next((value for content in contents if (value := dig(content, path)) is not None), None)


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _integer(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _last_line(trace: Any) -> str:
    lines = [str(line) for line in trace if str(line).strip()] if isinstance(trace, list) else []
    # sacred stores each frame of a traceback as one string of several lines.
    return lines[-1].strip().splitlines()[-1] if lines else ""

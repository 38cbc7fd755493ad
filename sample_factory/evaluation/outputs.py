"""The files of an evaluation: `eval.json` with statistics and episodes, `episodes.csv` with one line each.

`campaign` and `publish` write them, benchmarks and notebooks read them.

Invariant: JSON is strict (no NaN), and files appear whole.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.benchmark.run_record import eval_result, strict_json
from sample_factory.config.experiment_files import write_json
from sample_factory.evaluation.evaluate import EpisodeRecord
from sample_factory.model.durable_files import write_durably
from sample_factory.monitoring.statistics import flatten_stats

FORMAT = "sample_factory.eval/1"
EVAL_FILE = "eval.json"
EPISODES_FILE = "episodes.csv"
COLUMNS = (
    "episode",
    "env_index",
    "seed",
    "length",
    "reward",
    "true_reward",
    "terminated",
    "truncated",
    "agent",
)


def statistics(episodes: Sequence[EpisodeRecord]) -> dict[str, Any]:
    """Mean, spread and extremes of returns and lengths, and the means of what the environment counted."""
    rewards = [episode.reward for episode in episodes]
    true_rewards = [episode.true_reward for episode in episodes]
    stats: dict[str, Any] = eval_result(rewards, [episode.length for episode in episodes], true_rewards)[
        "imit_stats"
    ]
    counted: dict[str, list[float]] = {}
    for episode in episodes:
        for name, value in flatten_stats(episode.extra).items():
            counted.setdefault(name, []).append(value)
    return stats | {f"extra/{name}_mean": float(np.mean(values)) for name, values in counted.items()}


def episodes_table(episodes: Sequence[EpisodeRecord]) -> str:
    """The episodes as CSV, with what the environment counted in further columns."""
    extras = [flatten_stats(episode.extra) for episode in episodes]
    names = sorted({name for extra in extras for name in extra})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *names])
    for episode, extra in zip(episodes, extras, strict=True):
        row = [getattr(episode, column) for column in COLUMNS]
        writer.writerow([*row, *(extra.get(name, "") for name in names)])
    return text.getvalue()


def write_table(path: Path, episodes: Sequence[EpisodeRecord]) -> None:
    """Writes the episodes as a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, episodes_table(episodes).encode())


def write_evaluation(directory: Path, episodes: Sequence[EpisodeRecord], facts: Mapping[str, Any]) -> None:
    """Writes both files.

    Args:
        directory: made if it does not exist.
        episodes: by number.
        facts: about the policy and how it was played.
    """
    write_table(directory / EPISODES_FILE, episodes)
    content = {"format": FORMAT, **facts, **statistics(episodes)}
    # Not sorted: what the policy is comes first, the long list last.
    plain = {key: strict_json(value) for key, value in content.items()}
    plain["episodes"] = [
        strict_json(asdict(episode) | {"extra": flatten_stats(episode.extra)}) for episode in episodes
    ]
    write_json(directory / EVAL_FILE, plain)

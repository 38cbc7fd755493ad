"""Everything a wrapped script's environments do: rewards, episodes, and what it logs, written as it happens.

`recording` makes `gymnasium.make` return environments that report here. Files: `metrics.jsonl` (10-episode
means and logged values), and at the end `episodes.csv` and `rewards.npz`.

Invariant: only training is recorded; while the result is tested, the recorder is paused.
"""

from __future__ import annotations

import csv
import json
import math
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from sample_factory.monitoring.metrics import METRICS_FILE_NAME

EPISODES_FILE = "episodes.csv"
REWARDS_FILE = "rewards.npz"
WINDOW = 10  # episodes
MEAN_REWARD, MEAN_LENGTH = "10_ep_mean_reward", "10_ep_mean_length"

Mirror = Callable[[str, int, Mapping[str, float]], None]  # axis, position on it, values


@dataclass(frozen=True)
class Episode:
    """One finished episode; `env_steps` is the count over all environments when it ended."""

    env_index: int
    length: int
    reward: float
    env_steps: int


class Recorder:
    """Collects what happens; `mirror` hears of all of it too."""

    def __init__(self, directory: Path, mirror: Mirror | None = None) -> None:
        self._directory = directory
        self._mirror = mirror
        self._metrics: TextIO = (directory / METRICS_FILE_NAME).open("w", encoding="utf-8", buffering=1)
        self._rewards, self._dones, self._envs = array("f"), array("b"), array("H")
        self._window: deque[Episode] = deque(maxlen=WINDOW)
        self._next_mean = WINDOW
        self.episodes: list[Episode] = []
        self.env_steps = 0
        self.num_envs = 0
        self.last_values: dict[str, float] = {}
        self.is_paused = False

    def new_env(self) -> int:
        """The index of an environment that was just made."""
        self.num_envs += 1
        return self.num_envs - 1

    def step(self, env_index: int, reward: float, done: bool) -> None:
        """Takes note of one step."""
        if self.is_paused:
            return
        self.env_steps += 1
        self._rewards.append(reward)
        self._dones.append(done)
        self._envs.append(min(env_index, 65535))

    def episode(self, env_index: int, length: int, reward: float) -> None:
        """Takes note of a finished episode."""
        if self.is_paused:
            return
        episode = Episode(env_index, length, reward, self.env_steps)
        self.episodes.append(episode)
        self._window.append(episode)
        self._send("episode", len(self.episodes) - 1, {"episode_reward": reward, "episode_length": length})
        if len(self.episodes) >= self._next_mean:
            # Every ten episodes at first, rarer later: a million short episodes fit into a few thousand
            # lines.
            self._next_mean = max(self._next_mean + WINDOW, math.ceil(self._next_mean * 1.01))
            self._write_means()

    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Writes values that the script reports; whatever is no number is left out."""
        numbers = as_numbers(values)
        if self.is_paused or not numbers:
            return
        self.last_values |= numbers
        position = self.env_steps if step is None else int(step)
        self._write(numbers, position)
        self._send("env_step", position, numbers)

    def close(self) -> None:
        """Writes the last means and the tables."""
        if self._window:
            self._write_means()
        self._metrics.close()
        with (self._directory / EPISODES_FILE).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["episode", "env_index", "length", "reward", "env_steps"])
            for number, episode in enumerate(self.episodes):
                row = [episode.env_index, episode.length, episode.reward, episode.env_steps]
                writer.writerow([number, *row])
        np.savez_compressed(
            self._directory / REWARDS_FILE,
            rewards=np.array(self._rewards, dtype=np.float32),
            dones=np.array(self._dones, dtype=bool),
            env_index=np.array(self._envs, dtype=np.uint16),
        )

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Records nothing while the context lasts."""
        self.is_paused = True
        try:
            yield
        finally:
            self.is_paused = False

    def _write_means(self) -> None:
        means = {
            MEAN_REWARD: float(np.mean([episode.reward for episode in self._window])),
            MEAN_LENGTH: float(np.mean([episode.length for episode in self._window])),
        }
        self._write(means, self.env_steps)
        self._send("env_step", self.env_steps, means)

    def _write(self, values: Mapping[str, float], env_steps: int) -> None:
        finite = {key: value if math.isfinite(value) else None for key, value in values.items()}
        line = {"time": round(time.time(), 3), "env_steps": env_steps, "policy": 0, **finite}
        self._metrics.write(json.dumps(line, separators=(",", ":")) + "\n")

    def _send(self, axis: str, position: int, values: Mapping[str, float]) -> None:
        if self._mirror is not None:
            self._mirror(axis, position, values)


def as_numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """The entries that are single numbers, also of numpy and torch."""
    numbers = {}
    for key, value in values.items():
        try:
            numbers[str(key)] = float(value)
        except (TypeError, ValueError, RuntimeError):
            continue
    return numbers

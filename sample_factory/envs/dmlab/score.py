"""The human-normalised score of DMLab-30, and the objective that population-based training optimises.

The session feeds every finished episode to `Dmlab30Scores` and asks it for summaries now and then. A score is
given only when each of the 30 levels has finished an episode since the last one; then counting starts anew.

Invariant: capping comes after averaging over a level's episodes, so a lucky episode cannot hide a bad one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sample_factory.envs.dmlab.levels import DMLAB30, Level, raw_score_key

TARGET_OBJECTIVE = "dmlab_target_objective"


def human_normalised(level: Level, mean_return: float) -> float:
    """Where a mean return lies between a random policy (0) and a human (100)."""
    return 100.0 * (mean_return - level.random_score) / (level.human_score - level.random_score)


def capped(normalised: float) -> float:
    """Nothing above the human counts: one easy level must not pay for the hard ones."""
    return min(100.0, normalised)


def capped_mean(normalised: Sequence[float]) -> float:
    """The benchmark's one number, from the human-normalised scores of all levels."""
    return _mean([capped(score) for score in normalised])


def score_summaries(normalised: Sequence[float]) -> dict[str, float]:
    """TensorBoard tags and values, from the human-normalised scores in the order of `DMLAB30`."""
    tags: dict[str, float] = {}
    for task_id, (level, score) in enumerate(zip(DMLAB30, normalised, strict=True)):
        tags[f"_dmlab/{task_id:02d}_{level.name}_human_norm_score"] = score
        tags[f"_dmlab/capped_{task_id:02d}_{level.name}_human_norm_score"] = capped(score)
    tags["_dmlab/000_mean_human_norm_score"] = _mean(normalised)
    tags["_dmlab/000_capped_mean_human_norm_score"] = capped_mean(normalised)
    return tags


class Dmlab30Scores:
    """Collects returns per policy and level; implements `envs.extra_summaries.ExtraSummaries`."""

    def __init__(self) -> None:
        self._level_of_key = {raw_score_key(index, level.path): index for index, level in enumerate(DMLAB30)}
        self._returns: dict[int, list[list[float]]] = {}
        self._objective: dict[int, float] = {}

    def on_episode(self, policy_id: int, extra_stats: Mapping[str, Any]) -> None:
        """Takes note of the raw return among an episode's statistics."""
        for key, value in extra_stats.items():
            index = self._level_of_key.get(key)
            if index is not None:
                self._returns.setdefault(policy_id, _no_returns())[index].append(float(value))

    def collect(self, policy_id: int) -> dict[str, float]:
        """The score's tags once every level has finished an episode, else nothing."""
        returns = self._returns.get(policy_id, _no_returns())
        if not all(returns):
            return {}
        normalised = [
            human_normalised(level, _mean(of_level)) for level, of_level in zip(DMLAB30, returns, strict=True)
        ]
        self._returns[policy_id] = _no_returns()
        self._objective[policy_id] = capped_mean(normalised)
        return score_summaries(normalised) | {f"0_aux/avg_{TARGET_OBJECTIVE}": self._objective[policy_id]}

    def objectives(self, policy_id: int) -> dict[str, float]:
        """The last capped mean as `dmlab_target_objective`; empty until there is one."""
        value = self._objective.get(policy_id)
        return {} if value is None else {TARGET_OBJECTIVE: value}


def _no_returns() -> list[list[float]]:
    return [[] for _ in DMLAB30]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

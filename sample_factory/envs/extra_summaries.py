"""What a family may add to the summaries: statistics over many episodes that no single one can know.

The session builds one object per run, feeds it every finished episode and writes what it collects. The score
of DMLab-30 is the example: it exists only when all 30 levels have finished an episode.

Invariant: implementations are plain Python in the main process; they see numbers, never tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class ExtraSummaries(Protocol):
    """Statistics of one family, kept apart for each policy."""

    def on_episode(self, policy_id: int, extra_stats: Mapping[str, Any]) -> None:
        """Takes one finished episode's `episode_extra_stats`."""

    def collect(self, policy_id: int) -> dict[str, float]:
        """Complete TensorBoard tags and values to write now; empty when there is nothing new."""

    def objectives(self, policy_id: int) -> dict[str, float]:
        """The latest values, by name, that `--pbt_target_objective` may ask for."""


class NoExtraSummaries:
    """For families that add nothing."""

    def on_episode(self, policy_id: int, extra_stats: Mapping[str, Any]) -> None:
        """Ignores the episode."""

    def collect(self, policy_id: int) -> dict[str, float]:
        """Nothing to write."""
        return {}

    def objectives(self, policy_id: int) -> dict[str, float]:
        """Nothing to rank by."""
        return {}

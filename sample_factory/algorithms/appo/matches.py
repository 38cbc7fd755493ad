"""Who met whom in the environments of a split, and how it ended.

A rollout worker notes every episode here and sends the finished matches to the session, whose league rates
the players. Invariant: a match is told only if everybody in it stayed the same player from start to end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sample_factory.algorithms.appo.policy_mapping import PolicyMapping
from sample_factory.envs.vector import EpisodeEnd
from sample_factory.monitoring.reports import MatchReport


def member_player(number: int) -> int:
    """How reports call a member of the league; policies that learn are called by their own numbers."""
    return -1 - number


class MatchBook:
    """The matches under way in one split."""

    def __init__(self, mapping: PolicyMapping, agents_per_env: int, num_policies: int, seats: np.ndarray):
        """`seats[i]` is the member of the league that plays as policy `num_policies + i`."""
        self._mapping = mapping
        self._agents_per_env = agents_per_env
        self._num_policies = num_policies
        self._seats = seats
        num_agents = len(mapping.actors)
        self._started = [self._player(agent) for agent in range(num_agents)]
        self._scores: list[float | None] = [None] * num_agents
        self._finished: list[MatchReport] = []

    def _player(self, agent: int) -> int:
        actor = int(self._mapping.actors[agent])
        if actor < self._num_policies:
            return actor
        return member_player(int(self._seats[actor - self._num_policies]))

    def note(self, episodes: Sequence[EpisodeEnd]) -> None:
        """Episodes have ended; call it while the mapping still says who played them."""
        for end in episodes:
            self._scores[end.agent_index] = end.true_reward
        for env_index in {end.agent_index // self._agents_per_env for end in episodes}:
            first = env_index * self._agents_per_env
            agents = range(first, first + self._agents_per_env)
            scores = [score for agent in agents if (score := self._scores[agent]) is not None]
            if len(scores) < self._agents_per_env:
                continue
            players = [self._started[agent] for agent in agents]
            if players == [self._player(agent) for agent in agents] and len(set(players)) > 1:
                self._finished.append(MatchReport(tuple(players), tuple(scores)))

    def remapped(self, episodes: Sequence[EpisodeEnd]) -> None:
        """The mapping has been told too: where a match is over, the next one begins."""
        for env_index in {end.agent_index // self._agents_per_env for end in episodes}:
            first = env_index * self._agents_per_env
            agents = range(first, first + self._agents_per_env)
            if all(self._scores[agent] is not None for agent in agents):
                for agent in agents:
                    self._scores[agent] = None
                    self._started[agent] = self._player(agent)

    def take(self) -> list[MatchReport]:
        """The matches that have finished since the last call."""
        finished, self._finished = self._finished, []
        return finished

"""Elo ratings of players that meet in matches; pure arithmetic.

Used by the league and by `multi_agent_match`.

A match may have any number of players: each pair of them is one comparison, and who has the higher score has
won it. Invariant: what one player gains another loses, so ratings mean something only relative to each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations

START_RATING = 1200.0
STEP = 16.0  # the most a match between two can change
SCALE = 400.0  # a player this much better is expected to win ten of eleven games


def expected_score(rating: float, opponent: float) -> float:
    """The share of games a player is expected to win, a draw being half of one."""
    return float(1.0 / (1.0 + 10.0 ** ((opponent - rating) / SCALE)))


def outcome(score: float, opponent: float) -> float:
    """1 for the higher score, 0 for the lower, a half when they are equal."""
    return 0.5 if score == opponent else float(score > opponent)


class Ratings:
    """Ratings of players by whatever names them; newcomers start in the middle."""

    def __init__(self, step: float = STEP) -> None:
        self._step = step
        self.ratings: dict[Hashable, float] = {}
        self.matches: dict[Hashable, int] = {}

    def __getitem__(self, player: Hashable) -> float:
        return self.ratings.get(player, START_RATING)

    def set(self, player: Hashable, rating: float) -> None:
        """Gives a player a rating, for example that of the one it is a copy of."""
        self.ratings[player] = rating

    def forget(self, player: Hashable) -> None:
        """A player has left."""
        self.ratings.pop(player, None)
        self.matches.pop(player, None)

    def match(self, players: Sequence[Hashable], scores: Sequence[float]) -> bool:
        """Takes one match into account; False when nobody met anybody else."""
        pairs = [(i, j) for i, j in combinations(range(len(players)), 2) if players[i] != players[j]]
        if not pairs:
            return False
        changes = dict.fromkeys(players, 0.0)
        for i, j in pairs:
            surprise = outcome(scores[i], scores[j]) - expected_score(self[players[i]], self[players[j]])
            change = self._step * surprise / (len(players) - 1)
            changes[players[i]] += change
            changes[players[j]] -= change
        for player, change in changes.items():
            self.ratings[player] = self[player] + change
            self.matches[player] = self.matches.get(player, 0) + 1
        return True

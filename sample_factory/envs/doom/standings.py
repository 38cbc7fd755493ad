"""How a player stands in a match, what of it is reported, and how the bots grow with the player.

`MatchStatistics` and `BotCurriculum` wrap a player of a match; `rewards` asks for the standing of a winner.

Invariant: standings are computed from one `info` alone, at the end of an episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium

from sample_factory.envs.contract import EXTRA_STATS
from sample_factory.envs.doom.bots import DIFFICULTY_STEP, MAX_DIFFICULTY, BotRoster
from sample_factory.envs.wrappers import EnvWrapper

MAX_PLAYERS = 9  # whose frags the engine is asked for


@dataclass(frozen=True)
class Standing:
    """A player's place, and the distance to the leader (positive) or ahead of the second (negative or 0)."""

    place: int
    leader_gap: float
    num_players: int


def standing_of(info: Mapping[str, Any]) -> Standing:
    """The standing of the player whose `info` this is."""
    own = float(info.get("FRAGCOUNT", 0.0))
    num_players = int(info.get("PLAYER_COUNT", 1))
    ranking = sorted(
        (float(info.get(f"PLAYER{k}_FRAGCOUNT", 0.0)) for k in range(1, min(num_players, MAX_PLAYERS) + 1)),
        reverse=True,
    )
    place = 1 + sum(frags > own for frags in ranking)
    if place > 1:
        return Standing(place, ranking[0] - own, num_players)
    return Standing(place, ranking[1] - own if len(ranking) > 1 else 0.0, num_players)


def match_statistics(info: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a match that go into the summaries."""
    frags, deaths, standing = info["FRAGCOUNT"], info.get("DEATHCOUNT", 0.0), standing_of(info)
    return {
        "FRAGCOUNT": float(frags),
        "DEATHCOUNT": float(deaths),
        "KDR": float(frags / (deaths + 1.0)),
        "FINAL_PLACE": float(standing.place),
        "LEADER_GAP": float(standing.leader_gap),
    }


class MatchStatistics(EnvWrapper):
    """Reports frags, deaths and standing at the end of a match."""

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        if (terminated or truncated) and "FRAGCOUNT" in info:
            info.setdefault(EXTRA_STATS, {}).update(match_statistics(info))
        return obs, reward, terminated, truncated, info


class BotCurriculum(EnvWrapper):
    """Makes the bots stronger after a victory and weaker after a defeat.

    Args:
        env: reports frags in `info`.
        roster: the bots of the match; its difficulty is changed in place.
    """

    def __init__(self, env: gymnasium.Env, roster: BotRoster):
        super().__init__(env)
        self._roster = roster
        self._is_fixed = roster.difficulty >= MAX_DIFFICULTY

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps; the end of a match decides who comes to the next one."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        if (terminated or truncated) and "FRAGCOUNT" in info:
            info.setdefault(EXTRA_STATS, {})["bot_difficulty"] = self._roster.difficulty
            if not self._is_fixed:
                self._roster.difficulty = next_difficulty(self._roster.difficulty, standing_of(info))
        return obs, reward, terminated, truncated, info


def next_difficulty(difficulty: float, standing: Standing) -> float:
    """One step up for a clear winner, one down for the last and the last but one."""
    if standing.place == 1 and standing.leader_gap < 0:
        difficulty += DIFFICULTY_STEP
    elif standing.place >= standing.num_players - 1:
        difficulty -= DIFFICULTY_STEP
    return min(max(difficulty, 0), MAX_DIFFICULTY)

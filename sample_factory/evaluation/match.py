"""Two trained policies play against each other in an environment with several agents.

`multi_agent_match` is the command for it. Sides change places after every match, so that neither profits from
where it starts. Invariant: a match counts once every agent has finished an episode that began with the match.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sample_factory.config.config import Config
from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.make import make_env
from sample_factory.envs.observations import observation_dict_space
from sample_factory.envs.roles import roles_of
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.player import Player, load_player
from sample_factory.evaluation.stage import Stage, env_seed

Z_95 = 1.96
MAX_ELO = 800.0  # of a side that has won, or lost, every match


@dataclass(frozen=True)
class MatchResult:
    """What both sides got in one match: the mean true reward of their agents."""

    first_side: int  # which side played agent 0
    scores: tuple[float, float]
    frames: int

    @property
    def winner(self) -> int | None:
        """The side with the higher score; None for a draw."""
        if self.scores[0] == self.scores[1]:
            return None
        return int(self.scores[1] > self.scores[0])


@dataclass
class Record:
    """All matches so far, from the view of side 0."""

    matches: list[MatchResult] = field(default_factory=list)

    def count(self, winner: int | None) -> int:
        """Matches that ended like this."""
        return sum(match.winner == winner for match in self.matches)

    @property
    def points(self) -> float:
        """Share of the matches that side 0 has won, a draw being half of one."""
        return (self.count(0) + 0.5 * self.count(None)) / len(self.matches)

    def mean_scores(self) -> tuple[float, float]:
        """Of both sides."""
        means = np.mean([match.scores for match in self.matches], axis=0)
        return float(means[0]), float(means[1])

    def interval(self) -> tuple[float, float]:
        """Where `points` would lie in 95 % of repetitions (Wilson's interval)."""
        n, p = len(self.matches), self.points
        centre = (p + Z_95**2 / (2 * n)) / (1 + Z_95**2 / n)
        half = Z_95 / (1 + Z_95**2 / n) * math.sqrt(p * (1 - p) / n + Z_95**2 / (4 * n * n))
        return max(0.0, centre - half), min(1.0, centre + half)

    def elo_difference(self) -> float:
        """How much higher side 0 would be rated."""
        p = self.points
        if p in (0.0, 1.0):
            return MAX_ELO if p else -MAX_ELO
        return min(MAX_ELO, max(-MAX_ELO, 400.0 * math.log10(p / (1.0 - p))))


def play_matches(
    cfgs: tuple[Config, Config],
    num_matches: int,
    seed: int | None = None,
    after_match: Callable[[MatchResult], None] | None = None,
) -> Record:
    """Lets two trained policies play; the environment is that of the first one.

    Raises:
        EvaluationError: the policies can't play each other, or one of them can't be loaded.
    """
    env = make_env(cfgs[0].env, cfgs[0], EnvConfig(worker_index=0, vector_index=0, env_id=0))
    stage = Stage(env, None if seed is None else env_seed(seed, env_index=0))
    try:
        if stage.num_agents < 2:
            raise EvaluationError(
                f"--env={cfgs[0].env} has one agent, so nobody can play against anybody in it; "
                "compare scores with `sf enjoy` instead."
            )
        if roles_of(env) is not None:
            raise EvaluationError(
                f"--env={cfgs[0].env} has agents that differ, so sides can't change places; compare the mean "
                "rewards of `sf evaluate`, or give experiments with agents that are alike, such as those of "
                "--env=pettingzoo_classic.connect_four_v3."
            )
        _check_same_game(cfgs, env)
        seeds = [None, None] if seed is None else [env_seed(seed, 1), env_seed(seed, 2)]
        players = [load_player(cfg, env, s) for cfg, s in zip(cfgs, seeds, strict=True)]
        record = Record()
        stage.reset()
        for number in range(num_matches):
            record.matches.append(play_match(stage, players, first_side=number % 2))
            if after_match is not None:
                after_match(record.matches[-1])
        return record
    finally:
        stage.close()


def _check_same_game(cfgs: tuple[Config, Config], env: object) -> None:
    other = make_env(cfgs[1].env, cfgs[1], EnvConfig(worker_index=0, vector_index=0, env_id=1))
    try:
        spaces = [(observation_dict_space(e), e.action_space) for e in (env, other)]  # type: ignore[attr-defined]
    finally:
        other.close()
    if spaces[0] != spaces[1]:
        raise EvaluationError(
            f"{cfgs[0].experiment} and {cfgs[1].experiment} see or do different things "
            f"({spaces[0]} and {spaces[1]}); give experiments that were trained on the same environment."
        )


def play_match(stage: Stage, players: Sequence[Player], first_side: int) -> MatchResult:
    """One match on a stage whose agents are all at the start of an episode; leaves it so."""
    count = stage.num_agents
    sides = [(agent + first_side) % 2 for agent in range(count)]
    teams = [[agent for agent in range(count) if sides[agent] == side] for side in (0, 1)]
    scores: dict[int, float] = {}
    frames = stage.frames
    for player in players:
        player.begin(count)
    while len(scores) < count:
        actions = [None] * count
        for player, team in zip(players, teams, strict=True):
            for agent, action in zip(
                team, player.act([stage.observations[agent] for agent in team], team), strict=True
            ):
                actions[agent] = action
        ends = stage.step(actions)
        for end in ends:
            scores.setdefault(end.agent_index, end.true_reward)
            players[sides[end.agent_index]].forget(end.agent_index)
        if len(scores) == count and len(ends) < count:
            stage.reset()  # some are in the middle of another episode
    means = [float(np.mean([scores[agent] for agent in team])) for team in teams]
    return MatchResult(first_side, (means[0], means[1]), stage.frames - frames)

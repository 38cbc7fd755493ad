"""Scores of a policy: it plays a number of episodes, nothing is learned.

`showcase` and benchmarks use it. Several environments are stepped side by side: the network likes batches.

Invariant: every agent of every environment plays a fixed share of the episodes. Counting whichever episodes
end first would favour short ones, and in many tasks short episodes are bad ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sample_factory.envs.vector import EpisodeEnd
from sample_factory.evaluation.player import Player
from sample_factory.evaluation.stage import Stage, env_seed

MakeStageEnv = Callable[[int], Any]  # env_index -> environment


@dataclass(frozen=True)
class EvaluationResult:
    """One entry per episode; episodes of one agent stand in the order they were played.

    Attributes:
        episode_rewards: sums of rewards.
        true_rewards: what reports rank by; the same unless the environment says otherwise.
        lengths: frames.
    """

    episode_rewards: list[float] = field(default_factory=list)
    true_rewards: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    def add(self, episode: EpisodeEnd) -> None:
        """Takes one episode into the result."""
        self.episode_rewards.append(episode.reward)
        self.true_rewards.append(episode.true_reward)
        self.lengths.append(episode.length_frames)

    @property
    def mean_reward(self) -> float:
        """Mean episode reward; NaN without episodes."""
        return float(np.mean(self.episode_rewards)) if self.episode_rewards else math.nan

    @property
    def mean_true_reward(self) -> float:
        """Mean true reward; NaN without episodes."""
        return float(np.mean(self.true_rewards)) if self.true_rewards else math.nan


def evaluate_policy(
    player: Player, make_env: MakeStageEnv, *, num_episodes: int, num_envs: int = 1, seed: int = 0
) -> EvaluationResult:
    """Plays episodes and returns their scores.

    Args:
        player: the policy; its memory of earlier episodes is cleared.
        make_env: makes the environment of a given index; they are closed at the end.
        num_episodes: how many episodes to play in all.
        num_envs: how many environments to step side by side.
        seed: of the environments, so that policies can be compared on the same ones.
    """
    with ExitStack() as opened:
        stages = []
        for index in range(max(1, min(num_envs, num_episodes))):
            stage = Stage(make_env(index), env_seed(seed, index))
            opened.callback(stage.close)
            stages.append(stage)
        return _play(player, stages, num_episodes)


def shares(num_episodes: int, num_agents: int) -> list[int]:
    """How many episodes each agent plays; they differ by one at most."""
    quotient, remainder = divmod(num_episodes, num_agents)
    return [quotient + (agent < remainder) for agent in range(num_agents)]


def _play(player: Player, stages: Sequence[Stage], num_episodes: int) -> EvaluationResult:
    agents_per_env = stages[0].num_agents
    left = np.array(shares(num_episodes, len(stages) * agents_per_env))
    by_agent = [EvaluationResult() for _ in left]
    player.begin(len(left))
    for stage in stages:
        stage.reset()
    while left.any():
        # An environment plays on while any of its agents has episodes left.
        playing = [i for i in range(len(stages)) if left[i * agents_per_env : (i + 1) * agents_per_env].any()]
        agents = [i * agents_per_env + agent for i in playing for agent in range(agents_per_env)]
        actions = player.act([obs for i in playing for obs in stages[i].observations], agents)
        for place, i in enumerate(playing):
            start = place * agents_per_env
            for episode in stages[i].step(actions[start : start + agents_per_env]):
                agent = i * agents_per_env + episode.agent_index
                player.forget(agent)
                if left[agent]:
                    left[agent] -= 1
                    by_agent[agent].add(episode)
    return _joined(by_agent)


def _joined(results: Sequence[EvaluationResult]) -> EvaluationResult:
    return EvaluationResult(
        [reward for result in results for reward in result.episode_rewards],
        [reward for result in results for reward in result.true_rewards],
        [length for result in results for length in result.lengths],
    )

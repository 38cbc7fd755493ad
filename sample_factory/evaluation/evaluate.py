"""Scores of a policy: it plays a number of episodes, nothing is learned.

`showcase`, benchmarks, evaluation workers and the evaluator beside training use it. Several environments are
stepped side by side: the network likes batches.

Invariant: every agent of every environment plays a fixed share of the episodes. Counting whichever episodes
end first would favour short ones, and in many tasks short episodes are bad ones. With one agent, episode k
has the same seed whoever plays it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sample_factory.envs.contract import is_multiagent
from sample_factory.evaluation.player import Player
from sample_factory.evaluation.stage import PlayedEpisode, Stage, env_seed, episode_seed

MakeStageEnv = Callable[[int], Any]  # env_index -> environment


@dataclass(frozen=True)
class EpisodeRecord:
    """One episode of one agent; `episode` counts from 0 over the whole evaluation."""

    episode: int
    env_index: int
    agent: int
    seed: int | None
    length: int  # frames
    reward: float
    true_reward: float  # what reports rank by; the same unless the environment says otherwise
    terminated: bool
    truncated: bool
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluationResult:
    """The episodes of an evaluation, by number."""

    episodes: list[EpisodeRecord] = field(default_factory=list)

    @property
    def episode_rewards(self) -> list[float]:
        """Sums of rewards."""
        return [episode.reward for episode in self.episodes]

    @property
    def true_rewards(self) -> list[float]:
        """What reports rank by."""
        return [episode.true_reward for episode in self.episodes]

    @property
    def lengths(self) -> list[int]:
        """Frames."""
        return [episode.length for episode in self.episodes]

    @property
    def mean_reward(self) -> float:
        """Mean episode reward; NaN without episodes."""
        return float(np.mean(self.episode_rewards)) if self.episodes else math.nan

    @property
    def mean_true_reward(self) -> float:
        """Mean true reward; NaN without episodes."""
        return float(np.mean(self.true_rewards)) if self.episodes else math.nan


@dataclass(frozen=True)
class Programme:
    """Which episodes an evaluation consists of, and which environment plays which.

    Attributes:
        num_episodes: in all.
        num_envs: in all, over all processes.
        seed: of the episodes, so that policies can be compared on the same ones.
    """

    num_episodes: int
    num_envs: int = 1
    seed: int = 0

    @property
    def envs(self) -> range:
        """Indices of the environments; there is none without an episode to play."""
        return range(max(1, min(self.num_envs, self.num_episodes)))

    def episodes_of(self, env_index: int, agent: int, agents_per_env: int) -> range:
        """The episodes of one agent; the numbers of any two agents' episodes differ by one at most."""
        first = env_index * agents_per_env + agent
        return range(first, self.num_episodes, len(self.envs) * agents_per_env)

    def seeds_of(self, env_index: int, env: Any) -> Iterable[int]:
        """Seeds for the episodes of an environment; of the first alone if it resets itself."""
        if is_multiagent(env):
            return [env_seed(self.seed, env_index)]
        return [episode_seed(self.seed, episode) for episode in self.episodes_of(env_index, 0, 1)]


class EvaluationRound:
    """Episodes in progress; `step` until it `is_over`.

    Args:
        player: its memory of earlier episodes is cleared.
        stages: by the index of their environment; not reset yet.
        programme: what to play.
        action_repeat: environment steps per decision.
    """

    def __init__(
        self, player: Player, stages: Mapping[int, Stage], programme: Programme, action_repeat: int = 1
    ) -> None:
        self._player = player
        self._action_repeat = action_repeat
        self._stages = list(stages.values())
        self._env_indices = list(stages)
        self._agents = self._stages[0].num_agents
        self._left = [
            deque(programme.episodes_of(env_index, agent, self._agents))
            for env_index in stages
            for agent in range(self._agents)
        ]
        player.begin(len(self._left))
        for stage in self._stages:
            stage.reset()

    @property
    def is_over(self) -> bool:
        """Whether every agent has played its share."""
        return not any(self._left)

    @property
    def frames(self) -> int:
        """Frames played so far, in all environments."""
        return sum(stage.frames for stage in self._stages)

    def step(self) -> list[EpisodeRecord]:
        """One step of every environment that has episodes left; the episodes that ended with it."""
        playing = [place for place in range(len(self._stages)) if any(self._seats(place))]
        seats = [place * self._agents + agent for place in playing for agent in range(self._agents)]
        observations = [obs for place in playing for obs in self._stages[place].observations]
        actions = self._player.act(observations, seats)
        ended = []
        for number, place in enumerate(playing):
            start = number * self._agents
            chosen = actions[start : start + self._agents]
            for episode in self._stages[place].step(chosen, self._action_repeat):
                ended += self._take(place, episode)
        return ended

    def _seats(self, place: int) -> Sequence[deque[int]]:
        return self._left[place * self._agents : (place + 1) * self._agents]

    def _take(self, place: int, episode: PlayedEpisode) -> list[EpisodeRecord]:
        seat = place * self._agents + episode.agent_index
        self._player.forget(seat)
        if not self._left[seat]:  # it plays on because others in its environment have episodes left
            return []
        return [
            EpisodeRecord(
                episode=self._left[seat].popleft(),
                env_index=self._env_indices[place],
                agent=episode.agent_index,
                seed=episode.seed,
                length=episode.length_frames,
                reward=episode.reward,
                true_reward=episode.true_reward,
                terminated=episode.terminated,
                truncated=episode.truncated,
                extra=episode.extra,
            )
        ]


def evaluate_policy(
    player: Player, make_env: MakeStageEnv, *, num_episodes: int, num_envs: int = 1, seed: int = 0
) -> EvaluationResult:
    """Plays episodes and returns their scores.

    Args:
        player: the policy; its memory of earlier episodes is cleared.
        make_env: makes the environment of a given index; they are closed at the end.
        num_episodes: how many episodes to play in all.
        num_envs: how many environments to step side by side.
        seed: of the episodes, so that policies can be compared on the same ones.
    """
    programme = Programme(num_episodes, num_envs, seed)
    episodes: list[EpisodeRecord] = []
    with ExitStack() as opened:
        stages = {}
        for env_index in programme.envs:
            env = make_env(env_index)
            opened.callback(env.close)
            stages[env_index] = Stage(env, programme.seeds_of(env_index, env))
        playing = EvaluationRound(player, stages, programme)
        while not playing.is_over:
            episodes += playing.step()
    return EvaluationResult(sorted(episodes, key=lambda episode: episode.episode))

"""One environment on which policies are shown or scored, whatever number of agents it has.

`evaluate` steps several stages at once, `enjoy_appo` one of them frame by frame. A stage speaks in lists,
resets single-agent environments, keeps the running return of each agent's episode, and lets a witness write
down what happens.

Invariant: an action is never carried over the end of an episode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sample_factory.envs.contract import NUM_FRAMES, agents_of, is_multiagent
from sample_factory.envs.observations import dict_obs, observation_dict_space
from sample_factory.envs.vector import EpisodeEnd, EpisodeSums

Observation = dict[str, np.ndarray]


@dataclass(frozen=True)
class PlayedEpisode(EpisodeEnd):
    """An episode that ended on a stage, and how."""

    terminated: bool = False
    truncated: bool = False
    seed: int | None = None  # the environment's, where this episode had one of its own


@dataclass(frozen=True)
class Transition:
    """One step of one agent.

    Environments with several agents reset themselves, so the `next_observation` of their last step is the
    first one of the next episode.
    """

    observation: Observation
    action: Any
    reward: float
    next_observation: Observation
    terminated: bool
    truncated: bool


class Witness(Protocol):
    """Somebody who writes down what happens on a stage."""

    def begins(self, stage: Stage) -> None:
        """The environment has been reset."""

    def happens(self, stage: Stage, transitions: Sequence[Transition]) -> None:
        """A step has been made; one transition per agent."""


class Stage:
    """An environment and the episodes that run in it.

    Args:
        env: made by `make_env`.
        seed: of the first episode, and through the environment's own random numbers of all that follow; or
            one for each episode in turn; None leaves it unseeded.
        witness: told of every reset and step.
    """

    def __init__(
        self, env: Any, seed: int | Iterable[int] | None = None, witness: Witness | None = None
    ) -> None:
        self.env = env
        self.num_agents = agents_of(env)
        self.frames = 0
        self.observations: list[Observation] = []
        self._multiagent = is_multiagent(env)
        self._seeds = iter([seed] if isinstance(seed, int) else seed or ())
        self._seed: int | None = None
        self._witness = witness
        self._dtypes = {key: space.dtype for key, space in observation_dict_space(env).items()}
        self._sums = EpisodeSums.zeros(self.num_agents)

    def reset(self) -> None:
        """Starts new episodes for all agents."""
        self._seed = next(self._seeds, None)
        obs, _ = self.env.reset(seed=self._seed)
        self._observe(obs if self._multiagent else [obs])
        if self._witness is not None:
            self._witness.begins(self)

    def step(
        self, actions: Sequence[Any], repeat: int = 1, after_step: Callable[[], None] | None = None
    ) -> list[PlayedEpisode]:
        """Takes one action per agent; the episodes that ended. Their agents then see the next ones begin.

        Args:
            actions: what `env.step` takes, one entry per agent.
            repeat: how many times to take them; when any episode ends, all agents decide anew.
            after_step: called after each time, before a new episode begins: the end is worth seeing.
        """
        for _ in range(repeat):
            ended = self._step_once(actions)
            if after_step is not None:
                after_step()
            if ended:
                if not self._multiagent:
                    self.reset()
                return ended
        return []

    def _step_once(self, actions: Sequence[Any]) -> list[PlayedEpisode]:
        before = self.observations
        obs, rewards, terminated, truncated, infos = self._apply(actions)
        frames = [info.get(NUM_FRAMES, 1) for info in infos]
        self.frames += max(frames)
        self._sums.rewards += rewards
        self._sums.frames += frames
        self._observe(obs)
        if self._witness is not None:
            steps = zip(before, actions, rewards, self.observations, terminated, truncated, strict=True)
            self._witness.happens(self, [Transition(*step) for step in steps])
        return [
            PlayedEpisode(
                **vars(self._sums.end(agent, infos[agent])),
                terminated=bool(terminated[agent]),
                truncated=bool(truncated[agent]),
                seed=self._seed,
            )
            for agent in range(self.num_agents)
            if terminated[agent] or truncated[agent]
        ]

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()

    def _apply(self, actions: Sequence[Any]) -> tuple[Any, Any, Any, Any, Any]:
        if self._multiagent:
            result: tuple[Any, Any, Any, Any, Any] = self.env.step(list(actions))
            return result
        obs, reward, terminated, truncated, info = self.env.step(actions[0])
        return [obs], [reward], [terminated], [truncated], [info]

    def _observe(self, observations: Sequence[Any]) -> None:
        self.observations = [
            {
                key: array.astype(self._dtypes[key], copy=False)
                for key, array in dict_obs(self.env, obs).items()
            }
            for obs in observations
        ]


def episode_seed(seed: int, episode: int) -> int:
    """The seed of one of several episodes, whichever environment plays it."""
    return int(np.random.SeedSequence([seed, 0, episode]).generate_state(1)[0]) >> 1


def env_seed(seed: int, env_index: int) -> int:
    """The seed of one of several environments; neighbours get unrelated ones."""
    # Half the range of 32 bits: some simulators read seeds as signed.
    return int(np.random.SeedSequence([seed, env_index]).generate_state(1)[0]) >> 1

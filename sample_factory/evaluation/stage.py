"""One environment on which policies are shown or scored, whatever number of agents it has.

`evaluate` steps several stages at once, `enjoy_appo` one of them frame by frame. A stage speaks in lists,
resets single-agent environments, and keeps the running return of each agent's episode.

Invariant: an action is never carried over the end of an episode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sample_factory.envs.contract import NUM_FRAMES, agents_of, is_multiagent
from sample_factory.envs.observations import dict_obs, observation_dict_space
from sample_factory.envs.vector import EpisodeEnd, EpisodeSums

Observation = dict[str, np.ndarray]


class Stage:
    """An environment and the episodes that run in it.

    Args:
        env: made by `make_env`.
        seed: of the first episode, and through the environment's own random numbers of all that follow;
            None leaves it unseeded.
    """

    def __init__(self, env: Any, seed: int | None = None) -> None:
        self.env = env
        self.num_agents = agents_of(env)
        self.frames = 0
        self.observations: list[Observation] = []
        self._multiagent = is_multiagent(env)
        self._seed = seed
        self._dtypes = {key: space.dtype for key, space in observation_dict_space(env).items()}
        self._sums = EpisodeSums.zeros(self.num_agents)

    def reset(self) -> None:
        """Starts new episodes for all agents."""
        # Only once: some environments begin a whole new game when seeded, others repeat themselves.
        seed, self._seed = self._seed, None
        obs, _ = self.env.reset(seed=seed)
        self._observe(obs if self._multiagent else [obs])

    def step(
        self, actions: Sequence[Any], repeat: int = 1, after_step: Callable[[], None] | None = None
    ) -> list[EpisodeEnd]:
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

    def _step_once(self, actions: Sequence[Any]) -> list[EpisodeEnd]:
        obs, rewards, terminated, truncated, infos = self._apply(actions)
        frames = [info.get(NUM_FRAMES, 1) for info in infos]
        self.frames += max(frames)
        self._sums.rewards += rewards
        self._sums.frames += frames
        self._observe(obs)
        return [
            self._sums.end(agent, infos[agent])
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


def env_seed(seed: int, env_index: int) -> int:
    """The seed of one of several environments; neighbours get unrelated ones."""
    # Half the range of 32 bits: some simulators read seeds as signed.
    return int(np.random.SeedSequence([seed, env_index]).generate_state(1)[0]) >> 1

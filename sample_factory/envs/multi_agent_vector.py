"""A vector of multi-agent environments, which speak in lists and reset themselves.

See `vector` for the interface. Invariant: agents of one environment stand next to each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from sample_factory.envs.contract import (
    ACTION_MASK,
    IS_ACTIVE,
    NUM_FRAMES,
    TrainingInfo,
    agents_of,
    find_interface,
)
from sample_factory.envs.replacement import Replacements
from sample_factory.envs.roles import action_spaces
from sample_factory.envs.vector import (
    EpisodeSums,
    ObsRows,
    VectorStep,
    policy_listener,
    shape_rewards,
    tell_policies,
)


class MultiAgentVector:
    """A loop over multi-agent environments; agents of one environment stand next to each other."""

    def __init__(self, envs: Sequence[Any], seeds: Sequence[int], replacements: Replacements | None = None):
        self.envs = list(envs)
        self._replacements = replacements
        self.agents_per_env = agents_of(self.envs[0])
        self.num_agents = len(self.envs) * self.agents_per_env
        self.training_frames = 0
        self._seeds = list(seeds)
        self._step = VectorStep.empty(self.num_agents)
        self._sums = EpisodeSums.zeros(self.num_agents)
        self._played = np.zeros(self.num_agents, bool)  # active at least once in the current episode
        self._listeners = [policy_listener(env) for env in self.envs]
        self._info_targets = [find_interface(env, TrainingInfo) for env in self.envs]

    def reset(self, rows: ObsRows) -> None:
        """See `EnvVector`."""
        for i in range(len(self.envs)):
            self._write(i, self._reset_env(i), rows, 0)

    def _reset_env(self, i: int) -> Sequence[Any]:
        try:
            observations, _ = self.envs[i].reset(seed=self._seeds[i])
        except Exception as error:  # noqa: BLE001  simulators raise anything
            return self._replace_env(i, error)
        return observations

    def _replace_env(self, i: int, error: Exception) -> Sequence[Any]:
        """Puts a new environment in place of one that raised; returns its first observations."""
        if self._replacements is None:
            raise error
        where = f"seed {self._seeds[i]}, frame {self._sums.frames[i * self.agents_per_env]} of its episode"
        self.envs[i] = env = self._replacements.replace(i, self.envs[i], error, where)
        self._info_targets[i] = find_interface(env, TrainingInfo)
        self._listeners[i] = policy_listener(env)
        self._seeds[i] += 1
        for agent in range(self.agents_per_env):
            self._sums.drop(i * self.agents_per_env + agent)
        return self._reset_env(i)

    def _write(self, env_index: int, observations: Sequence[Any], rows: ObsRows, row: int) -> None:
        first = env_index * self.agents_per_env
        for agent, obs in enumerate(observations):
            if isinstance(obs, dict):
                rows.write(first + agent, row, obs)
            else:
                rows.put("obs", first + agent, row, obs)

    def step(self, actions: Sequence[Any], rows: ObsRows, row: int) -> VectorStep:
        """See `EnvVector`."""
        step, k = self._step, self.agents_per_env
        step.clear()
        ended: list[tuple[int, dict[str, Any]]] = []
        for i, env in enumerate(self.envs):
            first = i * k
            try:
                observations, rewards, terminated, truncated, infos = env.step(
                    list(actions[first : first + k])
                )
            except Exception as error:  # noqa: BLE001  simulators raise anything
                self._write(i, self._replace_env(i, error), rows, row)
                step.dones[first : first + k] = True
                step.valids[first : first + k] = False
                continue
            self._write(i, observations, rows, row)
            step.rewards[first : first + k] = rewards
            for agent in range(k):
                index, info = first + agent, infos[agent]
                step.frames[index] = info.get(NUM_FRAMES, 1)
                step.valids[index] = info.get(IS_ACTIVE, True)
                if terminated[agent] or truncated[agent]:
                    step.dones[index] = True
                    step.time_outs[index] = truncated[agent] and not terminated[agent]
                    ended.append((index, info))
        step.frames[~step.valids] = 0  # an inactive agent's frames are nobody's training frames
        self._played |= step.valids
        self._sums.rewards += step.rewards
        self._sums.frames += step.frames
        self._close_episodes(ended)
        return step

    def _close_episodes(self, ended: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        for index, info in ended:
            end = self._sums.end(index, info)
            if not self._played[index]:  # was out of the game all along: no episode of its own
                continue
            self._played[index] = False
            self._step.episodes.append(end)
            env_index = index // self.agents_per_env
            target = self._info_targets[env_index]
            if target is not None:
                target.set_training_info({"approx_total_training_steps": self.training_frames})
            if self._replacements is not None:
                self._replacements.finished_episode(env_index)

    def tell_policies(self, policies: np.ndarray) -> None:
        """See `EnvVector`."""
        tell_policies(self._listeners, policies)

    def shape_rewards(self, schemes: Sequence[dict[str, Any]]) -> None:
        """See `EnvVector`."""
        shape_rewards(self.envs, schemes)

    def warm_up(self, steps: Sequence[int], rows: ObsRows, beat: Callable[[], None]) -> None:
        """See `EnvVector`."""
        for i, count in enumerate(steps):
            beat()
            for _ in range(count):
                try:
                    observations, *_ = self.envs[i].step(self._random_actions(i, rows))
                except Exception as error:  # noqa: BLE001  simulators raise anything
                    observations = self._replace_env(i, error)
                self._write(i, observations, rows, 0)

    def _random_actions(self, env_index: int, rows: ObsRows) -> list[Any]:
        """Actions that the masks in row 0 allow: a forbidden one would end many a game at once."""
        choices = action_spaces(self.envs[env_index])
        masks = rows.views.get(ACTION_MASK)
        if masks is None or not all(isinstance(space, spaces.Discrete) for space in choices):
            return [space.sample() for space in choices]
        first = env_index * self.agents_per_env
        return [space.sample(masks[first + agent][0].astype(np.int8)) for agent, space in enumerate(choices)]

    def close(self) -> None:
        """See `EnvVector`."""
        for env in self.envs:
            env.close()

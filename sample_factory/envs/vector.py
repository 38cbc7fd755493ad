"""The environments of one split, stepped together, their observations written straight into the store.

Three shapes of the same interface: `SingleAgentVector` loops over gymnasium environments and resets them,
`MultiAgentVector` loops over environments that speak in lists and reset themselves, `BatchedVector` hands the
whole batch to one vectorised environment. Rollout workers and the dummy sampler use them.

Invariant: an observation row is written exactly once per agent and step, before `step` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from sample_factory.envs.batched import BatchedEnv
from sample_factory.envs.contract import (
    EXTRA_STATS,
    IS_ACTIVE,
    NUM_FRAMES,
    TRUE_REWARD,
    TrainingInfo,
    agents_of,
    find_interface,
)
from sample_factory.envs.replacement import Replacements


@dataclass(frozen=True)
class EpisodeEnd:
    """What is known of an episode when it ends."""

    agent_index: int
    reward: float  # sum of the rewards as the environment gave them
    true_reward: float
    length_frames: int
    extra: Mapping[str, Any]


@dataclass
class VectorStep:
    """One step of all agents of a split; the arrays are reused by the next step."""

    rewards: np.ndarray  # float32 [agents]
    dones: np.ndarray  # bool: the observation written is the first of a new episode
    time_outs: np.ndarray  # bool: it is, because of a time limit, and the final observation is unknown
    valids: np.ndarray  # bool: the action had an effect; False for inactive agents and resets
    frames: np.ndarray  # int32: simulator frames consumed
    episodes: list[EpisodeEnd] = field(default_factory=list)

    @classmethod
    def empty(cls, num_agents: int) -> VectorStep:
        """Arrays for a split of `num_agents`."""
        return cls(
            rewards=np.zeros(num_agents, np.float32),
            dones=np.zeros(num_agents, bool),
            time_outs=np.zeros(num_agents, bool),
            valids=np.ones(num_agents, bool),
            frames=np.ones(num_agents, np.int32),
        )

    def clear(self) -> None:
        """Back to: one frame each, nothing ended."""
        self.rewards.fill(0)
        self.dones.fill(False)
        self.time_outs.fill(False)
        self.valids.fill(True)
        self.frames.fill(1)
        self.episodes.clear()


class ObsRows:
    """Where observations go: for each agent one row of `[slots, rows, ...]` arrays."""

    def __init__(self, arrays: Mapping[str, np.ndarray], slots: np.ndarray):
        self._arrays = arrays
        self._slots = slots
        # One view per agent, made once per trajectory: the inner loop then indexes only by row.
        self.views = {key: [array[slot] for slot in slots] for key, array in arrays.items()}

    def write(self, agent_index: int, row: int, obs: Mapping[str, Any]) -> None:
        """Writes one agent's dictionary observation."""
        for key, views in self.views.items():
            views[agent_index][row] = obs[key]

    def write_batch(self, row: int, obs: Mapping[str, np.ndarray]) -> None:
        """Writes all agents' observations."""
        for key, array in self._arrays.items():
            array[self._slots, row] = obs[key]


class EnvVector(Protocol):
    """What a rollout worker needs from the environments of a split."""

    num_agents: int
    agents_per_env: int
    training_frames: int  # told to environments that want to know how far training has come

    def reset(self, rows: ObsRows) -> None:
        """Starts all environments and writes the first observations into row 0."""

    def step(self, actions: Sequence[Any], rows: ObsRows, row: int) -> VectorStep:
        """Steps all environments with one action per agent; writes the observations into `row`."""

    def tell_policies(self, policies: np.ndarray) -> None:
        """Tells environments with an attribute `curr_policy_idx` which policy acts in them."""

    def warm_up(self, steps: Sequence[int], rows: ObsRows, beat: Callable[[], None]) -> None:
        """Steps environment i `steps[i]` times at random, so that episodes end at different times."""

    def close(self) -> None:
        """Closes the environments."""


@dataclass
class EpisodeSums:
    """Running return and length of each agent's episode."""

    rewards: np.ndarray
    frames: np.ndarray

    @classmethod
    def zeros(cls, num_agents: int) -> EpisodeSums:
        """All episodes at their start."""
        return cls(np.zeros(num_agents, np.float64), np.zeros(num_agents, np.int64))

    def drop(self, agent_index: int) -> None:
        """Forgets an episode that will never end."""
        self.rewards[agent_index] = 0.0
        self.frames[agent_index] = 0

    def end(self, agent_index: int, info: Mapping[str, Any]) -> EpisodeEnd:
        """Closes one agent's episode."""
        reward = float(self.rewards[agent_index])
        length = int(self.frames[agent_index])
        self.drop(agent_index)
        true_reward = float(info.get(TRUE_REWARD, reward))
        return EpisodeEnd(agent_index, reward, true_reward, length, info.get(EXTRA_STATS) or {})


def _tell_policies(envs: Sequence[Any], policies: np.ndarray) -> None:
    """Sets `curr_policy_idx` where it exists; with several agents, the policy of the first."""
    agents_per_env = len(policies) // len(envs)
    for env, policy_id in zip(envs, policies[::agents_per_env].tolist(), strict=True):
        if hasattr(env.unwrapped, "curr_policy_idx"):
            env.unwrapped.curr_policy_idx = policy_id


class SingleAgentVector:
    """A loop over single-agent environments, which it resets.

    After a termination the next observation is at once that of the new episode. After a time-out the final
    observation is written, and the reset takes the place of the next step: so the network values the true
    final state. With `bootstrap_time_outs=False` a time-out counts as a termination.
    """

    agents_per_env = 1

    def __init__(
        self,
        envs: Sequence[Any],
        seeds: Sequence[int],
        bootstrap_time_outs: bool = True,
        replacements: Replacements | None = None,
    ):
        """Without `replacements` an exception of an environment ends everything."""
        self.envs = list(envs)
        self.num_agents = len(self.envs)
        self.training_frames = 0
        self._seeds = list(seeds)
        self._bootstrap_time_outs = bootstrap_time_outs
        self._replacements = replacements
        self._awaits_reset = [False] * self.num_agents
        self._step = VectorStep.empty(self.num_agents)
        self._sums = EpisodeSums.zeros(self.num_agents)
        self._info_targets = [find_interface(env, TrainingInfo) for env in self.envs]
        self._step_functions: list[Callable[[Any], Any]] = [env.step for env in self.envs]
        self._bare = not isinstance(self.envs[0].observation_space, spaces.Dict)  # stored under "obs"
        for env, seed in zip(self.envs, self._seeds, strict=True):
            env.action_space.seed(seed)

    def reset(self, rows: ObsRows) -> None:
        """See `EnvVector`."""
        self._sums = EpisodeSums.zeros(self.num_agents)
        for i in range(self.num_agents):
            self._write(i, self._reset_env(i, self._seeds[i]), rows, 0)

    def _reset_env(self, i: int, seed: int | None = None) -> Any:
        self._awaits_reset[i] = False
        try:
            obs, _ = self.envs[i].reset(seed=seed)
        except Exception as error:  # noqa: BLE001  simulators raise anything
            return self._replace_env(i, error)
        return obs

    def _replace_env(self, i: int, error: Exception) -> Any:
        """Puts a new environment in place of one that raised; returns its first observation."""
        if self._replacements is None:
            raise error
        where = f"seed {self._seeds[i]}, frame {self._sums.frames[i]} of its episode"
        self.envs[i] = env = self._replacements.replace(i, self.envs[i], error, where)
        self._step_functions[i] = env.step
        self._info_targets[i] = find_interface(env, TrainingInfo)
        self._seeds[i] += 1
        self._sums.drop(i)
        return self._reset_env(i, self._seeds[i])

    def _write(self, i: int, obs: Any, rows: ObsRows, row: int) -> None:
        if self._bare:
            rows.views["obs"][i][row] = obs
        else:
            rows.write(i, row, obs)

    def _apply(self, i: int, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._step_functions[i](action)

    def step(self, actions: Sequence[Any], rows: ObsRows, row: int) -> VectorStep:
        """See `EnvVector`."""
        step = self._step
        step.clear()
        rewards, ended = [], []
        awaits_reset, bare = self._awaits_reset, self._bare
        views = rows.views["obs"] if bare else []
        # The loop that a cheap simulator's speed hangs on: no calls but the environment's, no array scalars.
        for i, step_function in enumerate(self._step_functions):
            if awaits_reset[i]:
                obs, reward = self._reset_env(i), 0.0
                step.dones[i], step.valids[i], step.frames[i] = True, False, 0
            else:
                try:
                    obs, reward, terminated, truncated, info = step_function(actions[i])
                except Exception as error:  # noqa: BLE001  simulators raise anything
                    obs, reward, terminated, truncated, info = (
                        self._replace_env(i, error),
                        0.0,
                        False,
                        False,
                        {},
                    )
                    step.dones[i], step.valids[i], step.frames[i] = True, False, 0
                if info and NUM_FRAMES in info:
                    step.frames[i] = info[NUM_FRAMES]
                if terminated or truncated:
                    ended.append((i, info))
                    obs = self._after_end(i, obs, terminated)
            rewards.append(reward)
            if bare:
                views[i][row] = obs
            else:
                rows.write(i, row, obs)
        step.rewards[:] = rewards
        self._sums.rewards += step.rewards
        self._sums.frames += step.frames
        for i, info in ended:
            step.episodes.append(self._sums.end(i, info))
            self._tell_training_info(i)
            if self._replacements is not None:
                self._replacements.finished_episode(i)
        return step

    def _after_end(self, i: int, final_obs: Any, terminated: bool) -> Any:
        """What follows an episode's last step: the final observation after a time-out, or a new episode's."""
        if not terminated and self._bootstrap_time_outs:
            self._awaits_reset[i] = True
            return final_obs
        self._step.dones[i] = True
        return self._reset_env(i)

    def _tell_training_info(self, i: int) -> None:
        target = self._info_targets[i]
        if target is not None:
            target.set_training_info({"approx_total_training_steps": self.training_frames})

    def tell_policies(self, policies: np.ndarray) -> None:
        """See `EnvVector`."""
        _tell_policies(self.envs, policies)

    def warm_up(self, steps: Sequence[int], rows: ObsRows, beat: Callable[[], None]) -> None:
        """See `EnvVector`."""
        for i, count in enumerate(steps):
            beat()
            obs = None
            for _ in range(count):
                obs, _, terminated, truncated, _ = self._apply(i, self.envs[i].action_space.sample())
                if terminated or truncated:
                    obs = self._reset_env(i)
            if obs is not None:
                self._write(i, obs, rows, 0)

    def close(self) -> None:
        """See `EnvVector`."""
        for env in self.envs:
            env.close()


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
                rows.views["obs"][first + agent][row] = obs

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
        _tell_policies(self.envs, policies)

    def warm_up(self, steps: Sequence[int], rows: ObsRows, beat: Callable[[], None]) -> None:
        """See `EnvVector`."""
        for i, (env, count) in enumerate(zip(self.envs, steps, strict=True)):
            beat()
            observations = None
            for _ in range(count):
                actions = [env.action_space.sample() for _ in range(self.agents_per_env)]
                observations, *_ = env.step(actions)
            if observations is not None:
                self._write(i, observations, rows, 0)

    def close(self) -> None:
        """See `EnvVector`."""
        for env in self.envs:
            env.close()


class BatchedVector:
    """One vectorised environment that steps all its copies in one call and resets them one step later."""

    agents_per_env = 1

    def __init__(self, env: BatchedEnv, seed: int, bootstrap_time_outs: bool = True):
        self.env = env
        self.num_agents = env.num_envs
        self.training_frames = 0
        self._seed = seed
        self._bootstrap_time_outs = bootstrap_time_outs
        self._step = VectorStep.empty(self.num_agents)
        self._sums = EpisodeSums.zeros(self.num_agents)

    def reset(self, rows: ObsRows) -> None:
        """See `EnvVector`."""
        rows.write_batch(0, self.env.reset(self._seed))

    def step(self, actions: Any, rows: ObsRows, row: int) -> VectorStep:
        """See `EnvVector`."""
        step = self._step
        step.clear()
        result = self.env.step(np.asarray(actions))
        rows.write_batch(row, result.obs)
        step.rewards[:] = result.rewards
        step.frames[:] = result.frames
        step.dones[:] = result.terminated | result.resets
        if not self._bootstrap_time_outs:
            step.dones |= result.truncated
        step.valids[:] = ~result.resets
        step.rewards[result.resets] = 0.0
        step.frames[result.resets] = 0
        self._sums.rewards += step.rewards
        self._sums.frames += step.frames
        infos = dict(result.infos)
        for index in np.flatnonzero(result.terminated | result.truncated):
            step.episodes.append(self._sums.end(int(index), infos.get(int(index), {})))
        return step

    def tell_policies(self, policies: np.ndarray) -> None:
        """See `EnvVector`; copies inside one environment have no attributes."""

    def warm_up(self, steps: Sequence[int], rows: ObsRows, beat: Callable[[], None]) -> None:
        """See `EnvVector`; copies that step together can't be stepped apart, their seeds must do."""

    def close(self) -> None:
        """See `EnvVector`."""
        self.env.close()

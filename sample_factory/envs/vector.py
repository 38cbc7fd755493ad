"""The environments of one split, stepped together, their observations written straight into the store.

Three shapes of one interface: `SingleAgentVector` (here) loops over gymnasium environments and resets them,
`MultiAgentVector` loops over environments that speak in lists and reset themselves, `BatchedVector` hands the
whole batch to one vectorised environment. Rollout workers and the dummy sampler use them.

Invariant: an observation row is written exactly once per agent and step, before `step` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from sample_factory.envs.checkers import without_checkers
from sample_factory.envs.contract import (
    EXTRA_STATS,
    NUM_FRAMES,
    TRUE_REWARD,
    RewardShaping,
    TrainingInfo,
    find_interface,
)
from sample_factory.envs.replacement import Replacements
from sample_factory.rl.image_layout import write_turned


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
    """One step of all agents of a split; the arrays are reused by the next step.

    Numbers have the types in which they are summed up: with others an addition takes twice as long.
    """

    rewards: np.ndarray  # float64 [agents]
    dones: np.ndarray  # bool: the observation written is the first of a new episode
    time_outs: np.ndarray  # bool: it is, because of a time limit, and the final observation is unknown
    valids: np.ndarray  # bool: the action had an effect; False for inactive agents and resets
    frames: np.ndarray  # int64: simulator frames consumed
    episodes: list[EpisodeEnd] = field(default_factory=list)

    @classmethod
    def empty(cls, num_agents: int) -> VectorStep:
        """Arrays for a split of `num_agents`."""
        return cls(
            rewards=np.zeros(num_agents, np.float64),
            dones=np.zeros(num_agents, bool),
            time_outs=np.zeros(num_agents, bool),
            valids=np.ones(num_agents, bool),
            frames=np.ones(num_agents, np.int64),
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

    def __init__(self, arrays: Mapping[str, np.ndarray], slots: np.ndarray, turned: Collection[str] = ()):
        """`turned` names images whose arrays have the channels last, unlike what environments give."""
        self.turned = turned
        self._arrays = arrays
        self._slots = slots
        # One view per agent, made once per trajectory: the inner loop then indexes only by row.
        self.views = {key: [array[slot] for slot in slots] for key, array in arrays.items()}

    def put(self, key: str, agent_index: int, row: int, value: Any) -> None:
        """Writes what one agent observes under one key."""
        if key in self.turned:
            write_turned(value, self.views[key][agent_index][row])
        else:
            self.views[key][agent_index][row] = value

    def write(self, agent_index: int, row: int, obs: Mapping[str, Any]) -> None:
        """Writes one agent's dictionary observation."""
        for key in self.views:
            self.put(key, agent_index, row, obs[key])

    def write_batch(self, row: int, obs: Mapping[str, np.ndarray]) -> None:
        """Writes all agents' observations."""
        for key, array in self._arrays.items():
            if key in self.turned:
                for slot, image in zip(self._slots, obs[key], strict=True):
                    write_turned(image, array[slot, row])
            else:
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

    def shape_rewards(self, schemes: Sequence[dict[str, Any]]) -> None:
        """Gives each agent the reward scheme of the policy that controls it, where it can be shaped."""

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


def policy_listener(env: Any) -> Any | None:
    """The environment below all layers, if it has an attribute `curr_policy_idx`."""
    return env.unwrapped if hasattr(env.unwrapped, "curr_policy_idx") else None


def tell_policies(listeners: Sequence[Any | None], policies: np.ndarray) -> None:
    """Sets `curr_policy_idx` where it exists; with several agents, the policy of the first."""
    agents_per_env = len(policies) // len(listeners)
    for i, listener in enumerate(listeners):
        if listener is not None:
            listener.curr_policy_idx = int(policies[i * agents_per_env])


def shape_rewards(envs: Sequence[Any], schemes: Sequence[dict[str, Any]]) -> None:
    """Gives every agent's scheme to its environment, if that can be shaped and has another one."""
    agents_per_env = len(schemes) // len(envs)
    for i, env in enumerate(envs):
        target = find_interface(env, RewardShaping)
        if target is None:
            continue
        for agent in range(agents_per_env):
            scheme = schemes[i * agents_per_env + agent]
            if target.get_current_reward_shaping(agent) != scheme:
                target.set_reward_shaping(scheme, agent)


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
        self._listeners = [policy_listener(env) for env in self.envs]
        self._step_functions: list[Callable[[Any], Any]] = [env.step for env in self.envs]
        self._bare = not isinstance(self.envs[0].observation_space, spaces.Dict)  # stored under "obs"
        for env, seed in zip(self.envs, self._seeds, strict=True):
            env.action_space.seed(seed)

    def reset(self, rows: ObsRows) -> None:
        """See `EnvVector`."""
        self._sums = EpisodeSums.zeros(self.num_agents)
        for i in range(self.num_agents):
            self._write(i, self._reset_env(i, self._seeds[i]), rows, 0)
            self._step_functions[i] = self._step_function(i)

    def _step_function(self, i: int) -> Callable[[Any], Any]:
        """What steps an environment that has been reset."""
        step: Callable[[Any], Any] = without_checkers(self.envs[i]).step
        return step

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
        self._info_targets[i] = find_interface(env, TrainingInfo)
        self._listeners[i] = policy_listener(env)
        self._seeds[i] += 1
        self._sums.drop(i)
        obs = self._reset_env(i, self._seeds[i])
        self._step_functions[i] = self._step_function(i)
        return obs

    def _write(self, i: int, obs: Any, rows: ObsRows, row: int) -> None:
        if self._bare:
            rows.put("obs", i, row, obs)
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
        assigns = bare and "obs" not in rows.turned
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
            if assigns:
                views[i][row] = obs
            elif bare:
                write_turned(obs, views[i][row])
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
        tell_policies(self._listeners, policies)

    def shape_rewards(self, schemes: Sequence[dict[str, Any]]) -> None:
        """See `EnvVector`."""
        shape_rewards(self.envs, schemes)

    def warm_up(self, steps: Sequence[int], rows: ObsRows, beat: Callable[[], None]) -> None:
        """See `EnvVector`."""
        for i, count in enumerate(steps):
            beat()
            obs = None
            for _ in range(count):
                try:
                    obs, _, terminated, truncated, _ = self._apply(i, self.envs[i].action_space.sample())
                except Exception as error:  # noqa: BLE001  simulators raise anything
                    obs, terminated, truncated = self._replace_env(i, error), False, False
                if terminated or truncated:
                    obs = self._reset_env(i)
            if obs is not None:
                self._write(i, obs, rows, 0)

    def close(self) -> None:
        """See `EnvVector`."""
        for env in self.envs:
            env.close()

"""Environments that keep a record of everything done to them, and a policy that echoes what it sees.

An observation is `(agent, number)`: which agent in which life, and the how-manieth observation of it. The
policy answers with the observation, a number used once, and its own id. So every row of the store can be
compared with what really happened, and a row that is late, mixed up or written twice can't go unnoticed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_factory.algorithms.appo.trajectories import TrajectoryLayout, TrajectoryStore

OBSERVATION = spaces.Box(0.0, np.inf, (2,), np.float32)
ACTION = spaces.Box(-np.inf, np.inf, (4,), np.float32)


def echo_layout(rollout: int) -> TrajectoryLayout:
    return TrajectoryLayout(
        rollout=rollout,
        observations={"obs": ((2,), "float32")},
        num_actions=4,
        num_action_parameters=0,
        rnn_state_size=2,
    )


class KilledError(BaseException):
    """Stands for SIGKILL: the component it comes out of is gone."""


@dataclass(frozen=True)
class Row:
    """What the store must hold beside one observation."""

    next: int  # number of the observation in the row after it
    reward: float = 0.0
    frames: int = 0
    valid: bool = False
    done: bool = False
    time_out: bool = False
    nonce: float | None = None  # of the action that was executed


@dataclass
class Trace:
    """The life of one agent."""

    agent: int
    number: int = -1  # of its latest observation
    rows: dict[int, Row] = field(default_factory=dict)
    rnn: dict[int, float] = field(default_factory=lambda: {0: 0.0})  # expected state: steps in the episode
    policies: dict[int, int] = field(default_factory=dict)  # row -> who chose its action
    ends: dict[int, int] = field(default_factory=dict)  # first row of a trajectory -> its last
    readers: dict[int, set[int]] = field(default_factory=dict)  # first row of a trajectory -> who has read it

    def observe(self) -> np.ndarray:
        self.number += 1
        return np.array([self.agent, self.number], np.float32)

    def note(self, number: int, row: Row) -> None:
        self.rows[number] = row
        self.rnn[row.next] = 0.0 if row.done else self.rnn[number] + 1

    def trajectory(self, first: int) -> list[int]:
        """The rows of a trajectory that was handed over, without the one it bootstraps from."""
        numbers = [first]
        while numbers[-1] != self.ends[first]:
            numbers.append(self.rows[numbers[-1]].next)
        return numbers[:-1]

    def check(self, action: np.ndarray) -> float:
        """Refuses an action that does not answer the latest observation; returns its nonce."""
        assert action[:2].tolist() == [self.agent, self.number], (action, self.agent, self.number)
        return float(action[2])


@dataclass(frozen=True)
class Habits:
    """How the environments of a test behave."""

    terminate: float = 0.15  # probabilities per step
    time_out: float = 0.15
    inactive: float = 0.0  # of an agent to become inactive until its episode ends
    crash: float = 0.0


class EchoEnv(gymnasium.Env):
    """One agent; knows how the engine must treat its ends: terminations at once, time-outs a row later."""

    observation_space = OBSERVATION
    action_space = ACTION

    def __init__(self, trace: Trace, habits: Habits, rng: random.Random):
        self.traces = [trace]
        self.habits = habits
        self.rng = rng
        self.frames = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        return self.traces[0].observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        trace, rng = self.traces[0], self.rng
        nonce = trace.check(action)
        if rng.random() < self.habits.crash:
            raise KilledError
        n = trace.number
        obs = trace.observe()
        terminated = rng.random() < self.habits.terminate
        truncated = rng.random() < self.habits.time_out
        reward, frames = float(rng.randint(-5, 5)), rng.randint(1, 4)
        self.frames += frames
        done = terminated
        trace.note(n, Row(n + 2 if done else n + 1, reward, frames, valid=True, done=done, nonce=nonce))
        if truncated and not terminated:
            trace.note(n + 1, Row(n + 2, done=True))
        return obs, reward, terminated, truncated, {"num_frames": frames}


class EchoTeamEnv(gymnasium.Env):
    """Several agents that reset themselves, each with episodes of its own; some become inactive."""

    observation_space = OBSERVATION
    action_space = ACTION
    is_multiagent = True

    def __init__(self, traces: list[Trace], habits: Habits, rng: random.Random):
        self.traces = traces
        self.num_agents = len(traces)
        self.habits = habits
        self.rng = rng
        self.frames = 0
        self.active = [True] * self.num_agents

    def reset(  # type: ignore[override]
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[list, list]:
        return [trace.observe() for trace in self.traces], [{} for _ in self.traces]

    def step(self, actions: Any) -> tuple[list, list, list, list, list]:  # type: ignore[override]
        results = [self._step_agent(i, trace, actions[i]) for i, trace in enumerate(self.traces)]
        observations, rewards, terminated, truncated, infos = (list(x) for x in zip(*results, strict=True))
        return observations, rewards, terminated, truncated, infos

    def _step_agent(self, i: int, trace: Trace, action: np.ndarray) -> tuple[Any, float, bool, bool, dict]:
        rng, habits = self.rng, self.habits
        nonce = trace.check(action)
        if rng.random() < habits.crash:
            raise KilledError
        n = trace.number
        active = self.active[i]
        terminated, truncated = rng.random() < habits.terminate, rng.random() < habits.time_out
        done = terminated or truncated
        reward, frames = float(rng.randint(-5, 5)), rng.randint(1, 4)
        counted = frames if active else 0
        self.frames += counted
        trace.note(n, Row(n + 1, reward, counted, active, done, truncated and not terminated, nonce))
        self.active[i] = True if done else active and rng.random() >= habits.inactive
        return trace.observe(), reward, terminated, truncated, {"num_frames": frames, "is_active": active}


class EchoPolicy:
    """An `Acting` that answers with what it sees; its recurrent state counts the steps of the episode."""

    def __init__(self, policy_id: int, store: TrajectoryStore, world: Any):
        self.policy_id = policy_id
        self.version = -1
        self.dies_in_act = False
        self._store = store
        self._world = world

    def refresh(self) -> bool:
        self.version = self._world.versions[self.policy_id]
        return self.version >= 0

    def act(self, slots: np.ndarray, rows: np.ndarray | int) -> None:
        store, count = self._store, len(slots)
        rows = np.broadcast_to(rows, (count,))
        self._world.check_right_to_act(self.policy_id, slots.tolist(), rows.tolist())
        nonces = [next(self._world.nonces) for _ in range(count)]
        outputs = store.outputs
        outputs[slots, rows, :2] = store.obs["obs"][slots, rows]
        outputs[slots, rows, 2] = nonces
        outputs[slots, rows, 3] = self.policy_id
        store.policy_versions[slots, rows] = self.version
        store.rnn_states[slots, rows + 1] = store.rnn_states[slots, rows] + 1
        if self.dies_in_act:
            raise KilledError

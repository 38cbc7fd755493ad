"""A split: the environments a rollout worker steps together, and their trajectories in progress.

All agents of a split start and finish their trajectories together, so the row is one number. What the worker
alone writes (rewards, dones, ...) is collected here for T steps and goes to the store in one piece.

Invariant: between `begin` and `finish` the split holds one slot per agent, and row `self.row` of each holds
the observation that the next action answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

import numpy as np
import torch

from sample_factory.algorithms.appo.messages import next_tick
from sample_factory.algorithms.appo.policy_mapping import PolicyMapping
from sample_factory.algorithms.appo.trajectories import NO_POLICY, TrajectoryStore
from sample_factory.envs.vector import EnvVector, EpisodeEnd, ObsRows, VectorStep


class Phase(Enum):
    """What a split waits for."""

    NEEDS_SLOTS = auto()
    NEEDS_ACTIONS = auto()
    AWAITS_ACTIONS = auto()
    HAS_ACTIONS = auto()


class Split:
    """One split's state between two calls of the worker's `poll`."""

    def __init__(
        self,
        split_id: int,
        vector: EnvVector,
        store: TrajectoryStore,
        mapping: PolicyMapping,
        first_tick: int = 0,
    ):
        """`first_tick` must not be one of an earlier life whose requests may still be under way."""
        self.split_id = split_id
        self.vector = vector
        self.mapping = mapping
        self.phase = Phase.NEEDS_SLOTS
        self.row = 0
        self.tick = first_tick
        self.slots = np.empty(0, np.int64)
        self.awaited: set[int] = set()  # policies that have not answered yet
        self._store = store
        steps = (store.layout.rollout, vector.num_agents)
        self._rewards = np.zeros(steps, np.float32)
        self._dones = np.zeros(steps, bool)
        self._time_outs = np.zeros(steps, bool)
        self._frames = np.zeros(steps, np.int32)
        self._policy_ids = np.full(steps, NO_POLICY, np.int16)
        self._rows = ObsRows({}, np.empty(0, np.int64))
        # The observation between two trajectories: the old slots may be gone before new ones are free.
        agents = vector.num_agents
        obs = store.layout.observations
        self._carried_obs = {key: np.zeros((agents, 1, *shape), dtype) for key, (shape, dtype) in obs.items()}
        self._carried_rnn = np.zeros((agents, store.layout.rnn_state_size), np.float32)
        self.carried_rows = ObsRows(self._carried_obs, np.arange(agents), store.layout.turned)

    @property
    def num_agents(self) -> int:
        """Agents of all the split's environments."""
        return self.vector.num_agents

    def begin(self, slots: np.ndarray) -> None:
        """Starts trajectories in these slots with the carried observations and states."""
        store = self._store
        self.slots = slots
        self.row = 0
        for key, array in store.obs.items():
            array[slots, 0] = self._carried_obs[key][:, 0]
        store.rnn_states[slots, 0] = self._carried_rnn
        self._rows = ObsRows(store.obs, slots, store.layout.turned)
        self.phase = Phase.NEEDS_ACTIONS

    def actions(self) -> np.ndarray:
        """The actions chosen for the current row `[agents, num_actions]`."""
        return self._store.actions[self.slots, self.row]

    def step(self, actions: Sequence[Any]) -> list[EpisodeEnd]:
        """Steps the environments, records the row, moves to the next; returns the episodes that ended."""
        result = self.vector.step(actions, self._rows, self.row + 1)
        self._record(result)
        self.row += 1
        self.tick = next_tick(self.tick)
        if self._dones[self.row - 1].any():
            self._store.rnn_states[self.slots[self._dones[self.row - 1]], self.row] = 0.0
        self.phase = Phase.NEEDS_ACTIONS
        return result.episodes

    def _record(self, result: VectorStep) -> None:
        row = self.row
        self._rewards[row] = result.rewards
        self._dones[row] = result.dones
        self._time_outs[row] = result.time_outs
        self._frames[row] = result.frames
        self._policy_ids[row] = self.mapping.recorded
        if not result.valids.all():
            self._policy_ids[row, ~result.valids] = NO_POLICY

    @property
    def is_full(self) -> bool:
        """Whether the trajectories have all their steps."""
        return self.row == self._store.layout.rollout

    def finish(self, reward_scale: float, reward_clip: float) -> list[list[int]]:
        """Writes what was collected and carries the last observation over.

        Returns for each slot the policies that acted in it. The caller hands the slots over.
        """
        store, slots = self._store, self.slots
        store.rewards[slots] = np.clip(self._rewards.T * reward_scale, -reward_clip, reward_clip)
        store.dones[slots] = self._dones.T
        store.time_outs[slots] = self._time_outs.T
        store.frames[slots] = self._frames.T
        store.policy_ids[slots] = self._policy_ids.T
        for key, array in store.obs.items():
            self._carried_obs[key][:, 0] = array[slots, -1]
        self._carried_rnn[:] = store.rnn_states[slots, -1]
        self.phase = Phase.NEEDS_SLOTS
        first = self._policy_ids[0]
        if (self._policy_ids == first).all() and (first != NO_POLICY).all():  # nobody switched, nobody rested
            return [[policy_id] for policy_id in first.tolist()]
        return [[int(p) for p in np.unique(column) if p != NO_POLICY] for column in self._policy_ids.T]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the store's rows and the environments, for a bit-exact resume."""
        return {
            "phase": self.phase.name,
            "row": self.row,
            "tick": self.tick,
            "slots": self.slots.tolist(),
            "awaited": sorted(self.awaited),
            "mapping": self.mapping.state_dict(),
            "arrays": {name: torch.from_numpy(array.copy()) for name, array in self._arrays().items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues where `state_dict` was taken; the ledger must say that the slots are this worker's."""
        self.phase = Phase[state["phase"]]
        self.row, self.tick = state["row"], state["tick"]
        self.slots = np.array(state["slots"], np.int64)
        self.awaited = set(state["awaited"])
        self.mapping.load_state_dict(state["mapping"])
        for name, array in self._arrays().items():
            array[:] = state["arrays"][name].numpy()
        self._rows = ObsRows(self._store.obs, self.slots, self._store.layout.turned)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {
            "rewards": self._rewards,
            "dones": self._dones,
            "time_outs": self._time_outs,
            "frames": self._frames,
            "policy_ids": self._policy_ids,
            "carried_rnn": self._carried_rnn,
            **{f"carried_obs/{key}": array for key, array in self._carried_obs.items()},
        }

    def frames_collected(self) -> int:
        """Frames in the trajectories just finished."""
        return int(self._frames.sum())

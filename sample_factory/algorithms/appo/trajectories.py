"""The trajectory store: where all experience lives, and the ledger of who may touch it.

A slot is room for one agent's next T steps: one row of a few big arrays `[slots, T, ...]`. Observations and
recurrent states have T+1 places; the last one is what the bootstrap value is computed from. Data stays still,
only slot numbers travel.

Invariant: holding a slot is the only permission to touch its row. The ledger makes that visible: a slot
goes FREE -> FILLING (owned by one worker) -> READY (awaited by one or more policies) -> FREE; anything else
raises.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from sample_factory.processes.kernel_lock import KernelLock, NoLock
from sample_factory.processes.shared_memory import ArraySpec, SharedArrays, slab_size

NO_POLICY = -1  # policy id of a step nobody may train on
NOBODY = -1  # owner of a slot that no worker holds
POISON_REWARD = -42.42  # reward of steps never written; training on it would show


@dataclass(frozen=True)
class TrajectoryLayout:
    """Shapes of everything stored for one trajectory; the same in every process."""

    rollout: int
    observations: Mapping[str, tuple[tuple[int, ...], str]]  # key -> shape in the store, dtype
    num_actions: int
    num_action_parameters: int
    rnn_state_size: int
    turned: frozenset[str] = frozenset()  # keys of images that are stored with their channels last

    @property
    def num_outputs(self) -> int:
        """Columns of the packed policy output: actions, their parameters, log-probability, value."""
        return self.num_actions + self.num_action_parameters + 2

    def specs(self, num_slots: int) -> dict[str, ArraySpec]:
        """The arrays of a store with `num_slots` slots."""
        steps = (num_slots, self.rollout)
        rows = (num_slots, self.rollout + 1)
        specs = {f"obs/{key}": ArraySpec((*rows, *shape), d) for key, (shape, d) in self.observations.items()}
        specs["rnn_states"] = ArraySpec((*rows, self.rnn_state_size), "float32")
        specs["outputs"] = ArraySpec((*steps, self.num_outputs), "float32")
        specs["policy_versions"] = ArraySpec(steps, "int64", fill=-1)
        specs["policy_ids"] = ArraySpec(steps, "int16", fill=NO_POLICY)
        specs["rewards"] = ArraySpec(steps, "float32", fill=POISON_REWARD)
        specs["dones"] = ArraySpec(steps, "bool")
        specs["time_outs"] = ArraySpec(steps, "bool")
        specs["frames"] = ArraySpec(steps, "int32")
        return specs

    def megabytes(self, num_slots: int) -> float:
        """Shared memory a store of `num_slots` slots takes."""
        return slab_size(self.specs(num_slots)) / 2**20


class TrajectoryStore:
    """The arrays of all slots, by name.

    `dones[s, t]`: row t+1 starts a new episode. `time_outs[s, t]`: so it does, after a time limit, and the
    final observation is unknown. A time-out whose final observation is known is not a done: row t+1 holds
    that observation, belongs to no policy, and is itself a done.
    """

    def __init__(self, layout: TrajectoryLayout, arrays: Mapping[str, np.ndarray]):
        self.layout = layout
        self.arrays = arrays
        self.obs = {key: arrays[f"obs/{key}"] for key in layout.observations}
        self.rnn_states = arrays["rnn_states"]
        self.outputs = arrays["outputs"]
        self.policy_versions = arrays["policy_versions"]
        self.policy_ids = arrays["policy_ids"]
        self.rewards = arrays["rewards"]
        self.dones = arrays["dones"]
        self.time_outs = arrays["time_outs"]
        self.frames = arrays["frames"]
        self.actions = self.outputs[..., : layout.num_actions]

    @property
    def num_slots(self) -> int:
        """Slots in the store."""
        return int(self.rewards.shape[0])


class SlotState(IntEnum):
    """The life of a slot."""

    FREE = 0
    FILLING = 1
    READY = 2


class LedgerError(RuntimeError):
    """Somebody touched a slot that was not his."""


class SlotLedger:
    """Who holds which slot. Transitions happen under a lock that a dying process can't keep.

    The order of writes inside a transition matters: wherever it is cut short, every slot is free, owned by
    the dead worker, or ready and awaited. So `reclaim` and the batchers find all of them again.
    """

    def __init__(self, arrays: SharedArrays, lock: KernelLock | NoLock):
        self._states = arrays["slot_states"]
        self._owners = arrays["slot_owners"]
        self._awaited = arrays["slot_awaited"]  # [slots, policies]: this policy's learner has yet to read it
        self._lock = lock

    @staticmethod
    def specs(num_slots: int, num_policies: int) -> dict[str, ArraySpec]:
        """The ledger's arrays."""
        return {
            "slot_states": ArraySpec((num_slots,), "uint8", fill=SlotState.FREE),
            "slot_owners": ArraySpec((num_slots,), "int32", fill=NOBODY),
            "slot_awaited": ArraySpec((num_slots, num_policies), "bool"),
        }

    def claim(self, owner: int, count: int) -> np.ndarray | None:
        """Takes `count` free slots for a worker, or none at all: a split never waits holding some."""
        with self._lock:
            free = np.flatnonzero(self._states == SlotState.FREE)[:count]
            if len(free) < count:
                return None
            self._awaited[free] = False  # a transition cut short may have left some
            self._owners[free] = owner
            self._states[free] = SlotState.FILLING
        return free

    def hand_over(self, slots: np.ndarray, policies: Iterable[Sequence[int]]) -> None:
        """FILLING -> READY; `policies` names for each slot the policies whose learners will read it."""
        readers_of = list(policies)
        if not (self._states[slots] == SlotState.FILLING).all():
            raise LedgerError(f"slots {slots.tolist()} are handed over but not being filled")
        if not all(readers_of):
            raise LedgerError(f"one of the slots {slots.tolist()} is handed over to nobody")
        rows = np.repeat(slots, [len(readers) for readers in readers_of])
        columns = [policy_id for readers in readers_of for policy_id in readers]
        with self._lock:
            self._awaited[rows, columns] = True
            self._states[slots] = SlotState.READY
            self._owners[slots] = NOBODY

    def release(self, slots: np.ndarray, policy_id: int) -> None:
        """A learner has read these slots; those nobody else awaits become FREE."""
        if not (self._states[slots] == SlotState.READY).all() or not self._awaited[slots, policy_id].all():
            raise LedgerError(f"policy {policy_id} releases slots {slots.tolist()} that it does not hold")
        with self._lock:
            last_reader = self._awaited[slots].sum(axis=1) == 1
            self._states[slots[last_reader]] = SlotState.FREE
            self._awaited[slots, policy_id] = False

    def give_back(self, slots: np.ndarray) -> None:
        """FILLING -> FREE: a worker drops trajectories it has not handed over."""
        if not (self._states[slots] == SlotState.FILLING).all():
            raise LedgerError(f"slots {slots.tolist()} are given back but not being filled")
        with self._lock:
            self._states[slots] = SlotState.FREE
            self._owners[slots] = NOBODY

    def reclaim(self, owner: int) -> int:
        """Frees what a dead worker was filling; its open trajectories are lost and nothing else."""
        with self._lock:
            mine = (self._owners == owner) & (self._states == SlotState.FILLING)
            self._states[mine] = SlotState.FREE
            self._owners[mine] = NOBODY
        return int(mine.sum())

    def are_awaited_by(self, slots: Sequence[int], policy_id: int) -> np.ndarray:
        """For each slot, whether it is ready and not yet read by this policy's learner."""
        return (self._states[slots] == SlotState.READY) & self._awaited[slots, policy_id]

    def awaited_by(self, policy_id: int) -> np.ndarray:
        """Slots that are ready and not yet read by this policy's learner."""
        return np.flatnonzero((self._states == SlotState.READY) & self._awaited[:, policy_id])

    def counts(self) -> dict[SlotState, int]:
        """How many slots are in each state."""
        return {state: int((self._states == state).sum()) for state in SlotState}


def slots_needed(num_policies: int, slots_per_batch: int, agents_per_split: int) -> int:
    """The smallest store that can't deadlock.

    Each learner holds back at most `slots_per_batch - 1` ready slots without being able to train; one more
    split must still be able to start. With one slot fewer there are schedules that stop for ever.
    """
    return num_policies * (slots_per_batch - 1) + agents_per_split


@dataclass(frozen=True)
class StoreSize:
    """What decides how many slots a session has."""

    num_workers: int
    agents_per_worker: int
    agents_per_split: int
    num_policies: int
    slots_per_batch: int  # the largest a policy may get
    backlog_slots: int  # ready trajectories a learner may let pile up while it trains
    excess_ratio: float

    def num_slots(self) -> int:
        """Enough that sampling goes on while every learner trains, and never fewer than are needed."""
        wanted = (self.num_workers + 1) * self.agents_per_worker + self.backlog_slots * self.num_policies
        needed = slots_needed(self.num_policies, self.slots_per_batch, self.agents_per_split)
        return max(math.ceil(self.excess_ratio * wanted), needed)

"""The batcher: collects the slots of one policy, copies them into a batch, frees them.

The copy has a reason: slots go back to the rollout workers at once, so sampling goes on while the learner
trains. Trajectories that are too old are dropped here, before they cost a forward pass.

Invariant: a slot is released exactly once, after its last read. Which slots are waiting is what the ledger
says: messages only tell when to look, so neither a lost one nor one too many does harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from sample_factory.algorithms.appo.board import Board
from sample_factory.algorithms.appo.messages import SlotsFreed, TrajectoryReady, decode, encode
from sample_factory.algorithms.appo.trajectories import SlotLedger, TrajectoryStore
from sample_factory.processes.channels import Channel


@dataclass(frozen=True)
class Batch:
    """Trajectories `[N, T, ...]` by name; recurrent states have T+1 rows."""

    arrays: dict[str, np.ndarray]
    obs: dict[str, np.ndarray]  # with T+1 rows if the network is to see the last one with the others
    final_obs: dict[str, np.ndarray]  # [N, ...]: after the last step

    @property
    def num_trajectories(self) -> int:
        """N."""
        return int(self.arrays["rewards"].shape[0])


class Batcher:
    """Ready slots of one policy, oldest first."""

    def __init__(
        self,
        policy_id: int,
        store: TrajectoryStore,
        ledger: SlotLedger,
        board: Board,
        inbox: Channel,
        rollout_inboxes: Sequence[Channel],
    ):
        self._policy_id = policy_id
        self._store = store
        self._ledger = ledger
        self._board = board
        self._inbox = inbox
        self._rollout_inboxes = rollout_inboxes
        self._ready: dict[int, None] = {}  # a set that keeps its order
        self.discarded = 0  # trajectories dropped for their age

    def __len__(self) -> int:
        return len(self._ready)

    def receive(self, timeout: float = 0.0) -> None:
        """Notes the slots that have become ready."""
        records = self._inbox.receive(timeout)
        messages = [decode(record) for record in records]
        self._note_ready([message.slot for message in messages if isinstance(message, TrajectoryReady)])
        if not records:
            self.recover()

    def _note_ready(self, told: list[int]) -> None:
        if told:
            awaited = self._ledger.are_awaited_by(told, self._policy_id)
            self._ready |= dict.fromkeys(compress(told, awaited))

    def recover(self) -> None:
        """Finds ready slots that nobody tells of: their worker, or the learner before this one, has died."""
        self._ready |= dict.fromkeys(self._ledger.awaited_by(self._policy_id).tolist())

    def discard_older_than(self, version: int) -> None:
        """Drops trajectories in which even the newest step of this policy was chosen before `version`."""
        slots = np.fromiter(self._ready, np.int64, len(self._ready))
        mine = self._store.policy_ids[slots] == self._policy_id
        is_recent = mine & (self._store.policy_versions[slots] >= version)
        stale = slots[mine.any(axis=1) & ~is_recent.any(axis=1)]
        if len(stale):
            for slot in stale.tolist():
                del self._ready[slot]
            self.discarded += len(stale)
            self._release(stale)

    def take(self, count: int, final_apart: bool = False) -> Batch | None:
        """Copies the `count` oldest trajectories into a batch, frees their slots; None if there are fewer.

        With `final_apart` the batch's steps lie in memory without gaps: nobody has to copy images once more.
        """
        if len(self._ready) < count:
            return None
        slots = np.array(list(self._ready)[:count])
        for slot in slots.tolist():
            del self._ready[slot]
        store, num_rows = self._store, self._store.layout.rollout + (0 if final_apart else 1)
        names = (
            "rnn_states",
            "outputs",
            "policy_versions",
            "policy_ids",
            "rewards",
            "dones",
            "time_outs",
            "frames",
        )
        batch = Batch(
            arrays={name: store.arrays[name][slots] for name in names},
            obs={key: array[slots, :num_rows] for key, array in store.obs.items()},
            final_obs={key: array[slots, -1] for key, array in store.obs.items()},
        )
        self._release(slots)
        return batch

    def _release(self, slots: np.ndarray) -> None:
        self._ledger.release(slots, self._policy_id)
        self.wake_waiting_workers()

    def wake_waiting_workers(self) -> None:
        """Tells rollout workers that wait for slots, or for this policy's pause to end, to look again."""
        for worker_id in np.flatnonzero(self._board.waiting).tolist():
            self._board.waiting[worker_id] = False  # so that a worker busy elsewhere is told only once
            self._rollout_inboxes[worker_id].send([encode(SlotsFreed())])

    def ready_slots(self) -> list[int]:
        """The slots waiting to be batched, oldest first."""
        return list(self._ready)

    def restore_ready_slots(self, slots: Sequence[int]) -> None:
        """Continues with the slots of a saved session."""
        self._ready = dict.fromkeys(slots)

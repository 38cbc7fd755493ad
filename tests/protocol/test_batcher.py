"""The batcher alone: what it believes, what it drops, what it frees."""

from __future__ import annotations

from typing import Any

import numpy as np

from sample_factory.algorithms.appo.batcher import Batcher
from sample_factory.algorithms.appo.board import Board
from sample_factory.algorithms.appo.messages import TrajectoryReady, encode
from sample_factory.algorithms.appo.trajectories import SlotLedger, SlotState, TrajectoryStore
from sample_factory.processes.channels import LocalChannel
from sample_factory.processes.kernel_lock import NoLock
from tests.protocol.echo import echo_layout

SLOTS = 6


class Bench:
    """A batcher of policy 0 of 2, and everything around it."""

    def __init__(self) -> None:
        layout = echo_layout(rollout=2)
        specs = SlotLedger.specs(SLOTS, 2) | Board.specs(2, 1, 1, 1, 1) | layout.specs(SLOTS)
        arrays: Any = {name: np.full(spec.shape, spec.fill, spec.dtype) for name, spec in specs.items()}
        self.store = TrajectoryStore(layout, arrays)
        self.ledger = SlotLedger(arrays, NoLock())
        self.board = Board(arrays)
        self.inbox, self.worker_inbox = LocalChannel(), LocalChannel()
        self.batcher = self.make_batcher()

    def make_batcher(self) -> Batcher:
        return Batcher(0, self.store, self.ledger, self.board, self.inbox, [self.worker_inbox])

    def hand_over(self, count: int, policies: tuple[int, ...] = (0,), tell: bool = True) -> list[int]:
        slots = self.ledger.claim(0, count)
        assert slots is not None
        self.store.rewards[slots] = slots[:, None]
        self.ledger.hand_over(slots, [policies] * count)
        if tell:
            self.inbox.send(encode(TrajectoryReady(slot)) for slot in slots.tolist())
        return slots.tolist()

    def free(self) -> int:
        return self.ledger.counts()[SlotState.FREE]


def test_the_oldest_trajectories_are_taken_first_and_their_slots_are_free() -> None:
    bench = Bench()
    bench.hand_over(3)
    bench.batcher.receive()
    assert bench.batcher.take(4) is None
    batch = bench.batcher.take(2)
    assert batch is not None
    assert batch.arrays["rewards"].tolist() == [[0, 0], [1, 1]]
    assert batch.obs["obs"].shape == (2, 3, 2)
    assert bench.batcher.ready_slots() == [2]
    assert bench.free() == SLOTS - 1


def test_a_batch_is_a_copy() -> None:
    bench = Bench()
    bench.hand_over(1)
    bench.batcher.receive()
    batch = bench.batcher.take(1)
    assert batch is not None
    bench.store.rewards[:] = 99
    bench.store.obs["obs"][:] = 99
    assert batch.arrays["rewards"].tolist() == [[0, 0]]
    assert (batch.obs["obs"] == 0).all()


def test_the_observation_after_the_last_step_is_with_the_others_or_apart() -> None:
    for final_apart, num_rows in ((False, 3), (True, 2)):
        bench = Bench()
        bench.store.obs["obs"][:] = np.arange(SLOTS * 3 * 2).reshape(SLOTS, 3, 2)
        bench.hand_over(2)
        bench.batcher.receive()
        batch = bench.batcher.take(2, final_apart)
        assert batch is not None
        stored = [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]
        assert batch.obs["obs"].tolist() == [rows[:num_rows] for rows in stored]
        assert batch.obs["obs"].flags.c_contiguous  # so that steps become one long row without a copy
        assert batch.final_obs["obs"].tolist() == [[4, 5], [10, 11]]


def test_a_slot_another_policy_awaits_stays_ready() -> None:
    bench = Bench()
    bench.hand_over(1, policies=(0, 1))
    bench.batcher.receive()
    assert bench.batcher.take(1) is not None
    assert bench.free() == SLOTS - 1
    assert bench.ledger.awaited_by(1).tolist() == [0]


def test_a_slot_whose_worker_died_before_it_could_tell_is_found_in_silence() -> None:
    bench = Bench()
    told = bench.hand_over(1)
    untold = bench.hand_over(1, tell=False)
    bench.batcher.receive()
    assert bench.batcher.ready_slots() == told
    bench.batcher.receive()
    assert bench.batcher.ready_slots() == told + untold


def test_a_message_that_comes_after_the_slot_was_found_is_no_second_trajectory() -> None:
    bench = Bench()
    (slot,) = bench.hand_over(1, tell=False)
    bench.batcher.receive()
    bench.inbox.send([encode(TrajectoryReady(slot))])
    bench.batcher.receive()
    assert bench.batcher.ready_slots() == [slot]


def test_a_message_that_comes_after_the_slot_was_read_is_ignored() -> None:
    bench = Bench()
    (slot,) = bench.hand_over(1, tell=False)
    bench.batcher.receive()
    assert bench.batcher.take(1) is not None
    bench.inbox.send([encode(TrajectoryReady(slot))])
    bench.batcher.receive()
    assert bench.batcher.ready_slots() == []
    assert bench.ledger.claim(0, SLOTS) is not None
    bench.inbox.send([encode(TrajectoryReady(slot))])  # now it is somebody else's
    bench.batcher.receive()
    assert bench.batcher.ready_slots() == []


def test_a_new_batcher_takes_over_what_its_predecessor_had_not_read() -> None:
    bench = Bench()
    bench.hand_over(2)
    bench.batcher.receive()
    later = bench.hand_over(1)  # its message is still under way
    successor = bench.make_batcher()
    successor.recover()
    successor.receive()
    assert successor.ready_slots() == [0, 1, *later]
    assert successor.take(3) is not None
    assert bench.free() == SLOTS


def test_trajectories_are_dropped_only_when_their_newest_step_is_too_old() -> None:
    bench = Bench()
    slots = bench.hand_over(4)
    versions = [[3, 4], [4, 5], [5, 5], [9, 4]]
    bench.store.policy_ids[slots] = [[0, 0], [0, 0], [0, 0], [1, 0]]  # version 9 is another policy's
    bench.store.policy_versions[slots] = versions
    bench.batcher.receive()
    bench.batcher.discard_older_than(5)
    assert bench.batcher.ready_slots() == [1, 2]
    assert bench.batcher.discarded == 2
    assert bench.free() == SLOTS - 2


def test_a_trajectory_in_which_nobody_acted_has_no_age() -> None:
    bench = Bench()
    slots = bench.hand_over(1)
    bench.batcher.receive()
    bench.batcher.discard_older_than(100)
    assert bench.batcher.ready_slots() == slots


def test_dropping_wakes_workers_that_wait_for_slots() -> None:
    bench = Bench()
    bench.store.policy_ids[bench.hand_over(1)] = 0
    bench.batcher.receive()
    bench.board.waiting[0] = True
    bench.batcher.discard_older_than(100)
    assert len(bench.worker_inbox.records) == 1
    assert not bench.board.waiting[0]


def test_ready_slots_can_be_restored() -> None:
    bench = Bench()
    bench.hand_over(3)
    bench.batcher.receive()
    other = bench.make_batcher()
    other.restore_ready_slots([2, 0, 1])
    assert other.ready_slots() == [2, 0, 1]
    assert len(other) == 3

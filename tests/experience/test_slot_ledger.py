"""The ledger against a model that is nothing but a dictionary; every illegal step must raise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sample_factory.algorithms.appo.trajectories import LedgerError, SlotLedger, SlotState
from sample_factory.processes.kernel_lock import NoLock

SLOTS, POLICIES, WORKERS = 7, 3, 3


def plain_arrays(num_slots: int = SLOTS, num_policies: int = POLICIES) -> dict[str, np.ndarray]:
    specs = SlotLedger.specs(num_slots, num_policies)
    return {name: np.full(spec.shape, spec.fill, spec.dtype) for name, spec in specs.items()}


def make_ledger(arrays: dict[str, np.ndarray] | None = None) -> SlotLedger:
    shared: Any = plain_arrays() if arrays is None else arrays
    return SlotLedger(shared, NoLock())


subsets = st.lists(st.integers(0, SLOTS - 1), unique=True, min_size=1)
reader_sets = st.sets(st.integers(0, POLICIES - 1), min_size=1)


class LedgerMachine(RuleBasedStateMachine):
    """`filling` and `awaited` say all there is to know; slots in neither are free."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = make_ledger()
        self.filling: dict[int, int] = {}  # slot -> worker
        self.awaited: dict[int, set[int]] = {}  # slot -> policies

    @rule(worker=st.integers(0, WORKERS - 1), count=st.integers(1, 4))
    def claim(self, worker: int, count: int) -> None:
        free = SLOTS - len(self.filling) - len(self.awaited)
        slots = self.ledger.claim(worker, count)
        if count > free:
            assert slots is None
            return
        assert slots is not None
        taken = slots.tolist()
        assert len(set(taken)) == count
        assert not set(taken) & (self.filling.keys() | self.awaited.keys())
        self.filling |= dict.fromkeys(taken, worker)

    @rule(slots=subsets, readers=st.data())
    def hand_over(self, slots: list[int], readers: st.DataObject) -> None:
        named = [readers.draw(reader_sets) for _ in slots]
        if not set(slots) <= self.filling.keys():
            with pytest.raises(LedgerError, match="not being filled"):
                self.ledger.hand_over(np.array(slots), [sorted(r) for r in named])
            return
        self.ledger.hand_over(np.array(slots), [sorted(r) for r in named])
        for slot, policies in zip(slots, named, strict=True):
            del self.filling[slot]
            self.awaited[slot] = policies

    @precondition(lambda self: self.filling)
    @rule()
    def hand_over_to_nobody(self) -> None:
        with pytest.raises(LedgerError, match="to nobody"):
            self.ledger.hand_over(np.array(list(self.filling)), [[] for _ in self.filling])

    @rule(slots=subsets, policy=st.integers(0, POLICIES - 1))
    def release(self, slots: list[int], policy: int) -> None:
        if not all(policy in self.awaited.get(slot, ()) for slot in slots):
            with pytest.raises(LedgerError, match="does not hold"):
                self.ledger.release(np.array(slots), policy)
            return
        self._release(slots, policy)

    @rule(policy=st.integers(0, POLICIES - 1))
    def release_all(self, policy: int) -> None:
        slots = [slot for slot, policies in self.awaited.items() if policy in policies]
        if slots:
            self._release(slots, policy)

    def _release(self, slots: list[int], policy: int) -> None:
        self.ledger.release(np.array(slots), policy)
        for slot in slots:
            self.awaited[slot].discard(policy)
            if not self.awaited[slot]:
                del self.awaited[slot]

    @rule(slots=subsets)
    def give_back(self, slots: list[int]) -> None:
        if not set(slots) <= self.filling.keys():
            with pytest.raises(LedgerError, match="not being filled"):
                self.ledger.give_back(np.array(slots))
            return
        self.ledger.give_back(np.array(slots))
        for slot in slots:
            del self.filling[slot]

    @rule(worker=st.integers(0, WORKERS - 1))
    def reclaim(self, worker: int) -> None:
        lost = [slot for slot, owner in self.filling.items() if owner == worker]
        assert self.ledger.reclaim(worker) == len(lost)
        for slot in lost:
            del self.filling[slot]

    @invariant()
    def every_slot_is_in_one_state(self) -> None:
        assert self.ledger.counts() == {
            SlotState.FREE: SLOTS - len(self.filling) - len(self.awaited),
            SlotState.FILLING: len(self.filling),
            SlotState.READY: len(self.awaited),
        }

    @invariant()
    def every_policy_finds_what_it_has_to_read(self) -> None:
        for policy in range(POLICIES):
            expected = sorted(slot for slot, policies in self.awaited.items() if policy in policies)
            assert self.ledger.awaited_by(policy).tolist() == expected
            assert np.flatnonzero(self.ledger.are_awaited_by(range(SLOTS), policy)).tolist() == expected


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_slot_of_two_policies_is_free_only_after_both_have_read_it() -> None:
    ledger = make_ledger()
    slots = ledger.claim(0, 1)
    assert slots is not None
    ledger.hand_over(slots, [[0, 2]])
    ledger.release(slots, 2)
    assert ledger.counts()[SlotState.READY] == 1
    ledger.release(slots, 0)
    assert ledger.counts()[SlotState.FREE] == SLOTS

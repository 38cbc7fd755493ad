"""A process may be killed between any two writes to the ledger; no slot may be lost by that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sample_factory.algorithms.appo.trajectories import SlotLedger, SlotState
from sample_factory.processes.kernel_lock import NoLock

SLOTS, POLICIES = 6, 2
DYING, LIVING = 0, 1


class KilledError(BaseException):
    """Stands for SIGKILL."""


class MortalArray(np.ndarray):
    """An array whose process dies at a given write, of which the first element still gets through."""

    writes_left: list[int | None] = [None]  # noqa: RUF012  shared by all arrays on purpose

    def __setitem__(self, key: Any, value: Any) -> None:
        left = self.writes_left[0]
        if left is not None:
            if left == 0:
                self._write_first_element(key, value)
                raise KilledError
            self.writes_left[0] = left - 1
        super().__setitem__(key, value)

    def _write_first_element(self, key: Any, value: Any) -> None:
        if isinstance(key, np.ndarray):
            super().__setitem__(key[:1], value)
        elif isinstance(key, tuple) and isinstance(key[0], np.ndarray):
            super().__setitem__((key[0][:1], key[1]), value)


def make_ledger() -> SlotLedger:
    specs = SlotLedger.specs(SLOTS, POLICIES)
    arrays: Any = {n: np.full(s.shape, s.fill, s.dtype).view(MortalArray) for n, s in specs.items()}
    return SlotLedger(arrays, NoLock())


def claim(ledger: SlotLedger, owner: int, count: int) -> np.ndarray:
    slots = ledger.claim(owner, count)
    assert slots is not None
    return slots


def dies_claiming(ledger: SlotLedger) -> Callable[[], Any]:
    return lambda: ledger.claim(DYING, 3)


def dies_handing_over(ledger: SlotLedger) -> Callable[[], Any]:
    slots = claim(ledger, DYING, 3)
    return lambda: ledger.hand_over(slots, [[0], [0, 1], [1]])


def dies_giving_back(ledger: SlotLedger) -> Callable[[], Any]:
    slots = claim(ledger, DYING, 3)
    return lambda: ledger.give_back(slots)


def dies_releasing(ledger: SlotLedger) -> Callable[[], Any]:
    slots = claim(ledger, LIVING, 3)
    ledger.hand_over(slots, [[0], [0, 1], [0]])
    return lambda: ledger.release(slots, 0)


def killed_at_write(number: int, transition: Callable[[], Any]) -> bool:
    MortalArray.writes_left[0] = number
    try:
        transition()
    except KilledError:
        return True
    finally:
        MortalArray.writes_left[0] = None
    return False


@pytest.mark.parametrize("prepare", [dies_claiming, dies_handing_over, dies_giving_back, dies_releasing])
def test_every_slot_is_found_again_wherever_a_transition_is_cut_short(
    prepare: Callable[[SlotLedger], Callable[[], Any]],
) -> None:
    number, killed = 0, True
    while killed:
        ledger = make_ledger()
        others = claim(ledger, LIVING, 1)
        killed = killed_at_write(number, prepare(ledger))
        ledger.reclaim(DYING)
        for policy in range(POLICIES):
            ledger.release(ledger.awaited_by(policy), policy)
        assert ledger.counts() == {SlotState.FREE: SLOTS - 1, SlotState.FILLING: 1, SlotState.READY: 0}

        slots = claim(ledger, LIVING, SLOTS - 1)
        ledger.hand_over(slots, [[1]] * (SLOTS - 1))
        assert ledger.awaited_by(0).tolist() == [], "a slot of the dead is promised to a policy"
        assert set(ledger.awaited_by(1).tolist()) == set(range(SLOTS)) - set(others.tolist())
        number += 1
    assert number >= 3

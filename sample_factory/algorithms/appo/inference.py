"""Where a rollout worker's actions come from: its own network, or a policy worker.

`LocalInference` answers at once: no hop, no extra process. `RemoteInference` asks policy workers by message
and is answered by message. The rollout worker treats both alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from sample_factory.algorithms.appo.acting import Acting
from sample_factory.algorithms.appo.acting_together import ActingTogether
from sample_factory.algorithms.appo.board import Board
from sample_factory.algorithms.appo.messages import ActionRequest, encode
from sample_factory.processes.channels import Channel


class Inference(Protocol):
    """Asks for the actions of one split's current row."""

    answers_by_message: bool  # False: ask again until all actions are there

    def request(
        self, split_id: int, tick: int, slots: np.ndarray, policies: np.ndarray, row: int
    ) -> set[int]:
        """Returns the policies whose actions are still to come (none: all stand in the store)."""

    def repeat(self, split_id: int, tick: int, policy_id: int) -> None:
        """Asks one policy again after its worker was replaced."""


class LocalInference:
    """The rollout worker runs the networks itself."""

    answers_by_message = False

    def __init__(self, policies: Mapping[int, Any]):
        """Takes an `Acting` per policy."""
        self._policies = policies
        self._single = policies[0] if len(policies) == 1 else None
        self._together = ActingTogether(policies) if ActingTogether.fits(policies) else None

    def request(
        self, split_id: int, tick: int, slots: np.ndarray, policies: np.ndarray, row: int
    ) -> set[int]:
        """See `Inference`; answers at once unless a policy has no weights yet."""
        if self._single is not None:
            if not self._single.refresh():
                return {0}
            self._single.act(slots, row)
            return set()
        if self._together is not None:
            return self._together.act(split_id, slots, policies, row)
        present = np.unique(policies).tolist()
        missing = {policy_id for policy_id in present if not self._policies[policy_id].refresh()}
        if missing:
            return missing
        for policy_id in present:
            self._policies[policy_id].act(slots[policies == policy_id], row)
        return set()

    def repeat(self, split_id: int, tick: int, policy_id: int) -> None:
        """See `Inference`; there is no request that could be lost."""

    @property
    def policies(self) -> Mapping[int, Acting]:
        """The networks by policy."""
        return self._policies


class RemoteInference:
    """Policy workers run the networks; the board tells them which rows to look at."""

    answers_by_message = True

    def __init__(self, worker_id: int, board: Board, channels: Sequence[Sequence[Channel]]):
        """`channels[policy_id]` are the inboxes of that policy's workers; this worker uses one of each."""
        self._worker_id = worker_id
        self._board = board
        self._channels = [inboxes[worker_id % len(inboxes)] for inboxes in channels]

    def request(
        self, split_id: int, tick: int, slots: np.ndarray, policies: np.ndarray, row: int
    ) -> set[int]:
        """See `Inference`."""
        place = self._worker_id, split_id
        self._board.split_ticks[place] = tick  # first: from now on nobody answers an older request
        self._board.split_slots[place] = slots
        self._board.split_policies[place] = policies
        self._board.split_rows[place] = row
        present = {int(p) for p in np.unique(policies)}
        for policy_id in present:
            self.repeat(split_id, tick, policy_id)
        return present

    def repeat(self, split_id: int, tick: int, policy_id: int) -> None:
        """See `Inference`."""
        self._channels[policy_id].send([encode(ActionRequest(self._worker_id, split_id, tick))])

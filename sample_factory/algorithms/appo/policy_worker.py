"""The policy worker: batches the action requests of many rollout workers into one forward pass.

Invariant: a request is answered once, after all its outputs stand in the store. One that comes twice, or from
a rollout worker that has died since, is not answered: the slots may be in other hands by now.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sample_factory.algorithms.appo.acting import Acting
from sample_factory.algorithms.appo.board import Activity, Board, Stopwatch
from sample_factory.algorithms.appo.messages import ActionRequest, ActionsReady, decode, encode
from sample_factory.processes.channels import Channel

GATHER_SEC = 0.025  # longest wait for more requests once there is one
WEIGHTS_WAIT_SEC = 0.05


@dataclass(frozen=True)
class PolicyLinks:
    """What a policy worker shares with the others."""

    board: Board
    inbox: Channel
    rollout_inboxes: Sequence[Channel]
    stopwatch: Stopwatch


class PolicyWorker:
    """Serves the action requests of one policy."""

    def __init__(self, policy_id: int, acting: Acting, links: PolicyLinks, min_requests: int):
        self._policy_id = policy_id
        self._acting = acting
        self._links = links
        self._board = links.board
        self._watch = links.stopwatch
        self._min_requests = min_requests
        self._requests: list[ActionRequest] = []
        self._answered: dict[tuple[int, int], int] = {}  # (worker, split) -> tick of its last request

    def poll(self, timeout: float) -> None:
        """Gathers requests, answers them in one forward pass."""
        self._gather(timeout)
        if not self._requests:
            return
        if not self._acting.refresh():  # the learner has not published its first weights yet
            time.sleep(min(timeout, WEIGHTS_WAIT_SEC))
            return
        requests = self._take_open_requests()
        if not requests:
            return
        self._watch.switch(Activity.INFERENCE)
        self._act(requests)
        for request in requests:
            answer = ActionsReady(request.split_id, self._policy_id, request.tick)
            self._links.rollout_inboxes[request.worker_id].send([encode(answer)])
        self._watch.switch(Activity.OTHER)

    def _take_open_requests(self) -> list[ActionRequest]:
        """The pending requests that are still wanted and have not been answered yet."""
        pending, self._requests = self._requests, []
        requests = []
        for request in pending:
            place = request.worker_id, request.split_id
            wanted = self._board.split_ticks[place] == request.tick
            if wanted and self._answered.get(place) != request.tick:
                self._answered[place] = request.tick
                requests.append(request)
        return requests

    def _gather(self, timeout: float) -> None:
        self._watch.switch(Activity.WAITING)
        self._receive(0.0 if self._requests else timeout)
        deadline = time.monotonic() + min(timeout, GATHER_SEC)
        while self._requests and len(self._requests) < self._min_requests:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            self._receive(remaining)
        self._watch.switch(Activity.OTHER)

    def _receive(self, timeout: float) -> None:
        for record in self._links.inbox.receive(timeout):
            message = decode(record)
            if isinstance(message, ActionRequest):
                self._requests.append(message)

    def _act(self, requests: Sequence[ActionRequest]) -> None:
        slots, rows = [], []
        for request in requests:
            place = request.worker_id, request.split_id
            mine = self._board.split_policies[place] == self._policy_id
            slots.append(self._board.split_slots[place][mine])
            rows.append(np.full(len(slots[-1]), self._board.split_rows[place]))
        self._acting.act(np.concatenate(slots), np.concatenate(rows))

    @property
    def acting(self) -> Acting:
        """The network."""
        return self._acting

    @property
    def pending(self) -> list[ActionRequest]:
        """Requests received and not yet answered."""
        return self._requests

    def close(self) -> None:
        """Nothing outlives a policy worker."""

"""Channels that notice what must not be sent, or kill who sends."""

from __future__ import annotations

from collections.abc import Iterable

from sample_factory.algorithms.appo.messages import ActionsReady, decode
from sample_factory.processes.channels import LocalChannel, Record
from tests.protocol.echo import KilledError


class AnswersOnce(LocalChannel):
    """A rollout worker's inbox that refuses a second answer to the same request."""

    def __init__(self) -> None:
        super().__init__()
        self._answered: set[ActionsReady] = set()

    def send(self, records: Iterable[Record]) -> None:
        for record in records:
            message = decode(record)
            if isinstance(message, ActionsReady):
                assert message not in self._answered, f"{message} was answered before"
                self._answered.add(message)
            super().send([record])


class Deadly(LocalChannel):
    """A batcher's inbox; a worker can be made to die just before it sends."""

    def __init__(self) -> None:
        super().__init__()
        self.kills_next_sender = False

    def send(self, records: Iterable[Record]) -> None:
        if self.kills_next_sender:
            self.kills_next_sender = False
            raise KilledError
        super().send(records)

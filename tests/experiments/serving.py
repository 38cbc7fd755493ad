"""A dashboard that serves a train_dir while a test looks at it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sample_factory.experiments.dashboard.library import Library
from sample_factory.experiments.dashboard.server import DashboardServer


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Client:
    """Sends requests as they are: no normalised paths, any header."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()


@contextmanager
def dashboard(train_dir: Path) -> Iterator[Client]:
    """Serves on a free port until the block ends."""
    with DashboardServer(("127.0.0.1", 0), Library(train_dir), ["gpu-box"]) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield Client(server.port)
        finally:
            server.shutdown()
            thread.join(20)

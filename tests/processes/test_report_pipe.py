from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sample_factory.processes import channels
from sample_factory.processes.channels import ChannelFullError, LocalReporter, ReportPipe
from tests.processes import children


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(0, 200_000), max_size=5))
def test_reports_of_any_size_arrive_once_and_in_order(sizes: list[int]) -> None:
    pipe = ReportPipe()
    received: list[Any] = []
    for size in sizes:
        pipe.writer.send(b"r" * size)
        received += pipe.drain()
    for _ in range(30):
        pipe.writer.flush()
        received += pipe.drain()
    assert [len(report) for report in received] == sizes
    pipe.close()


def test_sending_never_waits_for_the_reader() -> None:
    pipe = ReportPipe()
    for number in range(20):
        pipe.writer.send((number, b"x" * 50_000))
    received: list[Any] = []
    while len(received) < 20:
        received += [number for number, _ in pipe.drain()]
        pipe.writer.flush()
    assert received == list(range(20))
    pipe.close()


def test_a_writer_nobody_reads_fails_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "_MAX_UNSENT_BYTES", 200_000)
    pipe = ReportPipe()
    with pytest.raises(ChannelFullError):
        for _ in range(10):
            pipe.writer.send(b"x" * 50_000)
    pipe.close()


def test_half_a_frame_of_a_dead_writer_is_never_delivered() -> None:
    pipe = ReportPipe()
    payload = pickle.dumps("complete")
    frame = struct.pack("<I", len(payload)) + payload
    os.write(pipe._write_fd, frame + frame[:-1])
    assert list(pipe.drain()) == ["complete"]
    assert list(pipe.drain()) == []
    pipe.close()


def test_reports_left_by_an_abandoned_drain_come_with_the_next_one() -> None:
    pipe = ReportPipe()
    for number in range(4):
        pipe.writer.send(number)
    first = pipe.drain()
    assert next(first) == 0
    assert next(first) == 1
    assert list(pipe.drain()) == [2, 3]
    assert list(first) == []
    pipe.close()


@pytest.mark.processes
def test_a_process_that_ends_first_delivers_the_rest_of_a_big_report(
    start_process: Callable[..., Any],
) -> None:
    pipe = ReportPipe()
    process = start_process(children.send_and_exit, pipe.writer, list(range(200_000)), 60.0)
    received: list[Any] = []
    while not received and process.is_alive():
        received += pipe.drain()
    process.join(60)
    received += pipe.drain()
    assert received == [list(range(200_000))]
    pipe.close()


def test_flushing_gives_up_when_nobody_reads() -> None:
    pipe = ReportPipe()
    pipe.writer.send(b"x" * 500_000)
    pipe.writer.flush_within(0.01)
    assert list(pipe.drain()) == []
    pipe.close()


def test_reports_within_one_process_arrive_in_order() -> None:
    reporter = LocalReporter()
    reporter.send("a")
    reporter.send("b")
    assert list(reporter.drain()) == ["a", "b"]
    assert list(reporter.drain()) == []

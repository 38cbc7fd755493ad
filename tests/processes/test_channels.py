"""One contract for both kinds of channel, and what real processes can do to a pipe."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sample_factory.processes.channels import (
    ChannelFullError,
    LocalChannel,
    PipeChannel,
    PipeChannels,
    Record,
)
from tests.processes import children

CHANNELS: dict[str, Callable[[], LocalChannel | PipeChannel]] = {
    "local": LocalChannel,
    "pipe": lambda: PipeChannel(10_000),
}


@pytest.fixture(params=CHANNELS)
def channel(request: pytest.FixtureRequest) -> Iterable[LocalChannel | PipeChannel]:
    made = CHANNELS[request.param]()
    yield made
    made.close()


def drain(channel: LocalChannel | PipeChannel) -> list[Record]:
    records: list[Record] = []
    while received := channel.receive():
        records += received
    return records


def test_records_arrive_once_and_in_order(channel: LocalChannel | PipeChannel) -> None:
    records = [(i, -i, 2**31 - 1, -(2**31)) for i in range(700)]
    channel.send(records[:3])
    channel.send(iter(records[3:]))
    assert drain(channel) == records
    assert drain(channel) == []


def test_a_send_of_nothing_is_no_message(channel: LocalChannel | PipeChannel) -> None:
    channel.send([])
    assert channel.receive() == []


def test_a_receive_after_silence_is_empty(channel: LocalChannel | PipeChannel) -> None:
    assert channel.receive(timeout=0.001) == []


def test_what_was_sent_before_a_receive_is_there_with_and_without_a_timeout(
    channel: LocalChannel | PipeChannel,
) -> None:
    channel.send([(1, 2, 3, 4)])
    assert channel.receive(timeout=0.0) == [(1, 2, 3, 4)]
    channel.send([(5, 6, 7, 8)])
    assert channel.receive(timeout=100.0) == [(5, 6, 7, 8)]


def test_a_waiting_receive_ends_with_the_first_record() -> None:
    channel = PipeChannel(10)
    sender = threading.Timer(0.01, channel.send, [[(1, 0, 0, 0)]])
    sender.start()
    assert channel.receive(timeout=200.0) == [(1, 0, 0, 0)]
    sender.join()
    channel.close()


def test_a_full_pipe_raises_instead_of_blocking_and_keeps_whole_groups() -> None:
    channel = PipeChannel(256)
    sent = 0
    with pytest.raises(ChannelFullError):
        for sent in range(10_000):
            channel.send([(sent, place, 0, 0) for place in range(7)])
    assert drain(channel) == [(group, place, 0, 0) for group in range(sent) for place in range(7)]
    channel.send([(1, 1, 1, 1)])
    assert channel.receive() == [(1, 1, 1, 1)]
    channel.close()


@settings(max_examples=60, deadline=None)
@given(capacity=st.integers(1, 5000), sizes=st.lists(st.integers(1, 600), min_size=1, max_size=6))
def test_a_pipe_holds_as_many_records_as_promised_whatever_the_size_of_groups(
    capacity: int, sizes: list[int]
) -> None:
    channel = PipeChannel(capacity)
    sent = 0
    while sent < capacity:
        for size in sizes:
            size = min(size, capacity - sent)
            channel.send([(sent + i, 0, 0, 0) for i in range(size)])
            sent += size
    assert [record[0] for record in drain(channel)] == list(range(capacity))
    channel.close()


@pytest.mark.processes
def test_groups_of_many_writers_arrive_whole_and_in_order(start_process: Callable[..., Any]) -> None:
    channel = PipeChannel(2000)
    writers = [start_process(children.send_groups, channel, i, 150, i) for i in range(4)]
    records: list[Record] = []
    while any(writer.is_alive() for writer in writers):
        records += channel.receive(timeout=0.01)
    records += drain(channel)
    groups = whole_groups(records)
    assert {writer: list(range(150)) for writer in range(4)} == groups
    channel.close()


def whole_groups(records: list[Record]) -> dict[int, list[int]]:
    """Group numbers by writer, in the order of arrival; fails on a group with a hole in it."""
    groups: dict[int, list[int]] = defaultdict(list)
    position = 0
    while position < len(records):
        writer, group, _, size = records[position]
        expected = [(writer, group, place, size) for place in range(size)]
        assert records[position : position + size] == expected
        groups[writer].append(group)
        position += size
    return groups


@pytest.mark.processes
def test_more_channels_than_one_process_start_can_carry_reach_a_child(
    start_process: Callable[..., Any],
) -> None:
    channels = PipeChannels([PipeChannel(8) for _ in range(400)])
    for life in range(2):
        process = start_process(children.answer_each, channels)
        process.join(60)
        assert process.exitcode == 0
        answers = [channel.receive() for channel in channels]
        assert answers == [[(place, 0, 0, 0)] for place in range(400)], f"in life {life}"
    channels.close()


@pytest.mark.processes
def test_a_channel_sent_with_others_reads_what_its_parent_writes(start_process: Callable[..., Any]) -> None:
    channels = PipeChannels([PipeChannel(8) for _ in range(3)])
    channels[2].send([(7, 8, 9, 10)])
    process = start_process(children.forward, channels)
    assert channels[0].receive(timeout=60.0) == [(7, 8, 9, 10)]
    process.join(60)
    assert len(channels) == 3
    channels.close()


@pytest.mark.processes
def test_writers_killed_at_random_instants_never_leave_half_a_group(
    start_process: Callable[..., Any],
) -> None:
    channel = PipeChannel(2000)
    rng = random.Random(0)
    records: list[Record] = []
    for life in range(50):
        writer = start_process(children.send_groups, channel, life, 10**9, life)
        first = channel.receive(timeout=60.0)
        assert first, "the writer never came up"
        records += first
        deadline = time.perf_counter() + rng.random() * 0.005
        while time.perf_counter() < deadline:
            records += channel.receive()
        writer.kill()
        writer.join()
        records += drain(channel)
    groups = whole_groups(records)
    assert set(groups) == set(range(50))
    assert all(numbers == list(range(len(numbers))) for numbers in groups.values())
    channel.close()

"""Waiting that ends with what is waited for: events between processes, and the end of processes."""

import multiprocessing
import os
import subprocess
import sys
import time

import pytest

from sample_factory.processes.ends import ProcessHandle, wait_for_ends
from sample_factory.processes.one_time_event import OneTimeEvent

LONG_SEC = 30.0
SOON_SEC = 10.0  # much less than LONG_SEC, much more than a busy machine needs


@pytest.fixture
def event():
    made = OneTimeEvent()
    yield made
    made.close()


def wait_and_tell(event, writer):
    writer.send("waiting")
    writer.send(event.wait(LONG_SEC))


@pytest.fixture
def waiter(event):
    """A process that waits for the event, and the pipe on which it tells what came of it."""
    context = multiprocessing.get_context("forkserver")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=wait_and_tell, args=(event, writer))
    process.start()
    writer.close()
    assert reader.recv() == "waiting"
    yield reader
    process.join(SOON_SEC)


def test_an_event_wakes_other_processes_when_it_happens(event, waiter):
    event.set()
    assert waiter.poll(SOON_SEC) and waiter.recv() is True


def test_an_event_that_does_not_happen_is_waited_for_until_the_deadline(event):
    started = time.monotonic()
    assert event.wait(0.05) is False
    assert time.monotonic() - started >= 0.05


def test_an_event_happens_once_and_for_good(event):
    event.set()
    event.set()
    assert event.wait(0.0) is True
    assert event.wait(0.0) is True


def test_an_event_gives_its_descriptors_back():
    before = len(os.listdir("/proc/self/fd"))
    event = OneTimeEvent()
    event.close()
    event.close()
    assert len(os.listdir("/proc/self/fd")) == before


def sleeper():
    return subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({LONG_SEC})"])


def test_the_end_of_a_process_is_seen_before_anybody_reaps_it():
    process = sleeper()
    handle = ProcessHandle(process.pid)
    assert handle.wait(0.0) is False
    process.kill()
    assert handle.wait(SOON_SEC) is True
    handle.close()
    process.wait()
    with pytest.raises(ProcessLookupError):
        ProcessHandle(process.pid)


def test_waiting_for_several_ends_with_the_last_or_with_the_deadline():
    processes = [sleeper(), sleeper()]
    pids = [process.pid for process in processes]
    processes[0].kill()
    started = time.monotonic()
    wait_for_ends(pids, timeout=0.2)
    assert time.monotonic() - started >= 0.2
    processes[1].kill()
    wait_for_ends(pids, timeout=LONG_SEC)
    assert time.monotonic() - started < SOON_SEC
    assert [process.wait() for process in processes] == [-9, -9]

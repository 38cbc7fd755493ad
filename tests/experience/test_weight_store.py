from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_factory.algorithms.appo.weights import NOT_PUBLISHED, WeightStore
from sample_factory.processes.shared_memory import SharedArrays
from tests.experience.publishers import LAYOUT, die_inside_publish, publish_for_ever, weights_of


@pytest.fixture
def start_process() -> Iterator[Callable[..., Any]]:
    started = []

    def start(function: Callable[..., Any], *args: Any) -> Any:
        process = get_context("forkserver").Process(target=function, args=args)
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.join(10.0)


def make_store() -> tuple[WeightStore, SharedArrays]:
    arrays = SharedArrays(LAYOUT.specs())
    return WeightStore(LAYOUT, arrays), arrays


def loaded(store: WeightStore) -> tuple[int, set[float]]:
    """The version that `load` returned, and every number that it gave."""
    into = weights_of(-7)
    version = store.load(into)
    return version, {float(value) for array in into.values() for value in np.unique(array)}


def test_nothing_is_loaded_before_the_first_publication() -> None:
    store, _ = make_store()
    assert store.version == NOT_PUBLISHED
    assert loaded(store) == (NOT_PUBLISHED, {-7.0})


@given(versions=st.lists(st.integers(0, 6), min_size=1))
def test_a_load_gives_the_last_publication_whatever_way_versions_go(versions: list[int]) -> None:
    store, arrays = make_store()
    for place, version in enumerate(versions):
        store.publish(weights_of(100 + place), version)
        assert store.version == version
        assert loaded(store) == (version, {100.0 + place})
    arrays.close()


def test_a_reader_never_sees_a_mixture_while_a_learner_publishes_as_fast_as_it_can(
    start_process: Callable[..., Any],
) -> None:
    store, arrays = make_store()
    start_process(publish_for_ever, arrays)
    successes, last = 0, -1
    deadline = time.monotonic() + 60
    while successes < 3000 and time.monotonic() < deadline:
        version, numbers = loaded(store)
        if version == NOT_PUBLISHED:
            continue
        assert numbers == {float(version)}
        assert version >= last
        successes, last = successes + 1, version
    assert successes == 3000
    assert last > 100, "the writer was too slow for this test to mean anything"


@pytest.mark.parametrize("tensors_written", [0, 1, 2])
@pytest.mark.parametrize("before", [[5], [4, 5], [3, 4, 5]])
def test_a_learner_killed_inside_publish_leaves_the_current_version(
    tensors_written: int, before: list[int], start_process: Callable[..., Any]
) -> None:
    store, arrays = make_store()
    for version in before:
        store.publish(weights_of(version), version)
    process = start_process(die_inside_publish, arrays, 6, tensors_written)
    process.join(60)
    assert process.exitcode == 9
    assert loaded(store) == (5, {5.0})
    store.publish(weights_of(3), 3)  # the next learner resumes from an older checkpoint
    assert loaded(store) == (3, {3.0})
    store.publish(weights_of(4), 4)
    assert loaded(store) == (4, {4.0})


def test_a_read_overtaken_by_two_publications_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = make_store()
    store.publish(weights_of(1), 1)
    copyto: Any = np.copyto
    overtaken: list[bool] = []

    def slow_copyto(target: np.ndarray, source: np.ndarray) -> None:
        copyto(target, source)
        if not overtaken:
            overtaken.append(True)
            store.publish(weights_of(2), 2)
            store.publish(weights_of(3), 3)

    monkeypatch.setattr(np, "copyto", slow_copyto)
    assert loaded(store) == (3, {3.0})


def test_a_read_overtaken_by_one_publication_is_still_good(monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = make_store()
    store.publish(weights_of(1), 1)
    copyto: Any = np.copyto
    overtaken: list[bool] = []

    def slow_copyto(target: np.ndarray, source: np.ndarray) -> None:
        copyto(target, source)
        if not overtaken:
            overtaken.append(True)
            store.publish(weights_of(2), 2)

    monkeypatch.setattr(np, "copyto", slow_copyto)
    assert loaded(store) == (1, {1.0})

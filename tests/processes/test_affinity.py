from __future__ import annotations

import os

import pytest

from sample_factory.processes.affinity import available_cores, cores_for_worker
from sample_factory.processes.affinity import pin as pin_process

CORES_20 = list(range(20))


def table(num_workers: int, cores: list[int]) -> list[list[int] | None]:
    return [cores_for_worker(worker, num_workers, cores) for worker in range(num_workers)]


def test_workers_that_fill_the_cores_get_one_each() -> None:
    assert table(4, [0, 1, 2, 3]) == [[0], [1], [2], [3]]
    assert table(4, [4, 6]) == [[4], [6], [4], [6]]


def test_44_workers_on_20_cores() -> None:
    assigned = table(44, CORES_20)
    assert assigned[:20] == assigned[20:40] == [[core] for core in CORES_20]
    assert assigned[40:] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11, 12, 13, 14], [15, 16, 17, 18, 19]]


def test_90_workers_on_72_cores() -> None:
    assigned = table(90, list(range(72)))
    assert assigned[71] == [71]
    assert assigned[72] == [0, 1, 2, 3]
    assert assigned[89] == [68, 69, 70, 71]


def test_a_rest_that_does_not_divide_the_cores_floats() -> None:
    assert table(23, CORES_20)[20:] == [None, None, None]
    assert table(3, [0, 1]) == [[0], [1], [0, 1]]


def test_fewer_workers_than_cores_share_them_evenly_if_they_can() -> None:
    assert table(2, [0, 1, 2, 3]) == [[0, 1], [2, 3]]
    assert table(3, [0, 1, 2, 3]) == [None, None, None]


def test_pinning_changes_the_cores_of_this_process() -> None:
    before = available_cores()
    if len(before) < 2:
        pytest.skip("needs two cores")
    pin_process(before[:1])
    try:
        assert available_cores() == before[:1]
    finally:
        os.sched_setaffinity(0, before)


def test_a_floating_worker_keeps_its_cores() -> None:
    before = available_cores()
    pin_process(None)
    assert available_cores() == before

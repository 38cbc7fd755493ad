"""Which GPU a job gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_factory.runner.errors import RunnerError
from sample_factory.runner.placement import Placement, visible_gpus


def test_jobs_are_spread_over_gpus_the_first_of_equals_first() -> None:
    placement = Placement(max_parallel=12, gpus=["0", "1", "2", "3"], experiments_per_gpu=3)
    assert [placement.place(str(job)) for job in range(6)] == ["0", "1", "2", "3", "0", "1"]


def test_the_gpu_with_most_room_is_taken() -> None:
    placement = Placement(0, ["0", "1"], 2)
    for job in "abcd":
        placement.place(job)
    placement.release("b")
    placement.release("d")
    assert placement.place("e") == "1"


def test_there_is_no_room_when_all_slots_are_taken() -> None:
    placement = Placement(max_parallel=100, gpus=["0", "1"], experiments_per_gpu=1)
    placement.place("a")
    assert placement.has_room()
    placement.place("b")
    assert not placement.has_room()


def test_there_is_no_room_beyond_max_parallel() -> None:
    placement = Placement(max_parallel=1)
    assert placement.place("a") is None
    assert not placement.has_room()


def test_zero_max_parallel_has_always_room() -> None:
    placement = Placement(max_parallel=0)
    for job in range(50):
        placement.place(str(job))
    assert placement.has_room()


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 8), st.lists(st.booleans(), max_size=60))
def test_no_gpu_ever_holds_more_than_its_share(
    num_gpus: int, share: int, parallel: int, steps: list[bool]
) -> None:
    placement = Placement(parallel, [str(gpu) for gpu in range(num_gpus)], share)
    running: dict[str, str | None] = {}
    for number, start in enumerate(steps):
        if start and placement.has_room():
            running[str(number)] = placement.place(str(number))
        elif running:
            job = next(iter(running))
            placement.release(job)
            del running[job]
        held = list(running.values())
        assert len(held) <= parallel
        assert all(held.count(gpu) <= share for gpu in set(held))


def test_gpus_come_from_the_inherited_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-abc,7")
    assert visible_gpus(2) == ["5", "GPU-abc"]


def test_gpus_count_from_zero_without_an_inherited_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpus(3) == ["0", "1", "2"]


def test_asking_for_more_gpus_than_visible_names_a_number_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    with pytest.raises(RunnerError, match="--num_gpus=1"):
        visible_gpus(4)

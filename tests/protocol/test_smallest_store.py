"""The number of slots below which a session can stop for ever is exact."""

from __future__ import annotations

import random

import pytest

from sample_factory.algorithms.appo.trajectories import SlotState
from tests.protocol.shapes import Shape, random_shape, try_schedules
from tests.protocol.world import World

TIGHT = [
    Shape(policies=1, slots_per_batch=3, envs_per_split=2),
    Shape(policies=1, slots_per_batch=4, envs_per_split=1, splits=2),
    Shape(policies=2, slots_per_batch=2, envs_per_split=1, workers=3),
    Shape(policies=2, slots_per_batch=3, envs_per_split=2, workers=3),
    Shape(policies=2, slots_per_batch=2, envs_per_split=3, policy_workers=0, workers=3),
]


def test_with_as_many_slots_as_are_needed_every_schedule_goes_on() -> None:
    def schedule(seed: int) -> None:
        rng = random.Random(seed)
        world = World(random_shape(rng, spare_slots=0), seed)
        for _ in range(3):
            world.run(rng.randint(0, 60))
            assert world.goes_on()

    try_schedules(range(150), schedule)


@pytest.mark.parametrize("shape", TIGHT, ids=str)
def test_the_same_sessions_go_on_with_as_many_slots_as_are_needed(shape: Shape) -> None:
    def schedule(seed: int) -> None:
        world = World(shape, seed)
        world.run(100)
        assert world.goes_on()

    try_schedules(range(30), schedule)


@pytest.mark.parametrize("shape", TIGHT, ids=str)
def test_with_one_slot_fewer_some_schedule_stops_for_ever(shape: Shape) -> None:
    tight = Shape(**vars(shape) | {"spare_slots": -1})
    stopped = 0
    for seed in range(30):
        world = World(tight, seed)
        world.run(100)
        if not world.goes_on():
            stopped += 1
            counts = world.ledger.counts()
            assert counts[SlotState.FILLING] == 0
            assert counts[SlotState.FREE] < shape.agents_per_split
    assert stopped > 0

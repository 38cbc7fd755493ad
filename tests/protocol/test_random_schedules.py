"""The engine under schedules no machine would show in a test: nothing is lost, mixed or counted twice."""

from __future__ import annotations

import random

import pytest

from tests.protocol.echo import Habits
from tests.protocol.shapes import Shape, random_shape, try_schedules
from tests.protocol.world import World

BLOCK = 100


def run_schedule(seed: int) -> None:
    rng = random.Random(seed)
    habits = Habits(terminate=rng.choice((0.0, 0.1, 0.5)), time_out=rng.choice((0.0, 0.1, 0.5)))
    world = World(random_shape(rng), seed, habits)
    world.run(120)
    world.check_everything_is_accounted_for()
    assert world.goes_on()


@pytest.mark.parametrize("first", range(0, 1000, BLOCK))
def test_every_trajectory_is_whole_and_every_frame_and_slot_is_accounted_for(first: int) -> None:
    try_schedules(range(first, first + BLOCK), run_schedule)


def test_nobody_acts_before_the_first_weights_are_published() -> None:
    def schedule(seed: int) -> None:
        world = World(random_shape(random.Random(seed)), seed)
        world.versions = [-1] * world.shape.policies
        world.run(60)
        assert sum(env.frames for env in world.envs) == 0
        world.versions = [0] * world.shape.policies
        assert world.goes_on()
        world.check_everything_is_accounted_for()

    try_schedules(range(50), schedule)


def test_a_long_session_keeps_its_order() -> None:
    world = World(Shape(workers=2, splits=2, policies=2, policy_workers=2, spare_slots=3), seed=1)
    for _ in range(40):
        world.run(100)
    world.check_everything_is_accounted_for()
    assert all(learner.batches > 10 for learner in world.learners)

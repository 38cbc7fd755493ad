from __future__ import annotations

import random

import numpy as np

from sample_factory.algorithms.appo.trajectories import NO_POLICY, SlotState
from tests.protocol.echo import Habits
from tests.protocol.shapes import Shape, random_shape, try_schedules
from tests.protocol.world import World

OFTEN_INACTIVE = Habits(inactive=0.4, terminate=0.05, time_out=0.05)


def test_inactive_steps_are_masked_and_their_frames_are_not_counted() -> None:
    def schedule(seed: int) -> None:
        shape = random_shape(random.Random(seed), agents_per_env=3)
        world = World(shape, seed, OFTEN_INACTIVE)
        world.run(100)
        assert world.goes_on()
        world.check_everything_is_accounted_for()
        assert world.board.env_steps.tolist() == [learner.frames for learner in world.learners]

    try_schedules(range(80), schedule)


def test_slots_in_which_nobody_acted_go_back_and_reach_no_learner() -> None:
    """All agents are inactive for good after their first step, so later trajectories are of no use."""
    shape = Shape(workers=1, agents_per_env=2, envs_per_split=1, rollout=2, slots_per_batch=2)
    world = World(shape, 0, Habits(inactive=1.0, terminate=0.0, time_out=0.0))
    for _ in range(100):
        for component in world.components():
            world.poll(component)
    (learner,) = world.learners
    assert learner.batches == 1
    assert world.board.collected[0, 0] > 5
    assert world.ledger.counts()[SlotState.READY] == 0
    first_steps = [trace.rows[0].frames for trace in world.traces.values()]
    assert learner.frames == sum(first_steps) == world.board.sampled_frames[0]


def test_an_inactive_step_belongs_to_no_policy() -> None:
    shape = Shape(workers=1, agents_per_env=2, envs_per_split=1, rollout=3, slots_per_batch=3)
    world = World(shape, 0, Habits(inactive=1.0, terminate=0.0, time_out=0.0))
    while world.ledger.counts()[SlotState.READY] < 2:
        for component in world.components():
            world.poll(component)
    ready = np.flatnonzero(world.states == SlotState.READY)
    assert world.store.policy_ids[ready].tolist() == [[0, NO_POLICY, NO_POLICY]] * 2
    assert (world.store.frames[ready, 1:] == 0).all()

"""A paused policy gets no new trajectories; a worker that waits is woken, and told only once."""

from __future__ import annotations

import random

import pytest

from sample_factory.algorithms.appo.messages import SlotsFreed, encode
from sample_factory.algorithms.appo.split import Phase
from tests.protocol.shapes import Shape, random_shape, try_schedules
from tests.protocol.world import World


def run_until_quiet(world: World) -> None:
    for _ in range(20 * world.shape.rollout):
        for component in world.components():
            world.poll(component)


def test_a_pause_lets_open_trajectories_finish_and_starts_no_others() -> None:
    def schedule(seed: int) -> None:
        world = World(random_shape(random.Random(seed), policies=1, spare_slots=20), seed)
        world.run(80)
        world.board.paused[0] = True
        run_until_quiet(world)
        assert all(split.phase is Phase.NEEDS_SLOTS for _, split in world.live_splits())
        frames = sum(env.frames for env in world.envs)
        world.run(100)
        assert sum(env.frames for env in world.envs) == frames
        world.board.paused[0] = False
        assert world.goes_on()
        world.check_everything_is_accounted_for()

    try_schedules(range(40), schedule)


def test_a_pause_of_one_policy_does_not_stop_splits_that_do_without_it() -> None:
    shape = Shape(workers=2, envs_per_split=1, policies=2, spare_slots=20)
    world = World(shape, seed=0)
    splits = dict(world.live_splits())
    for policy_id, split in splits.items():  # worker 0 plays for policy 0, worker 1 for policy 1
        split.mapping.policies[:] = policy_id
        split.mapping._fixed = True
    world.board.paused[0] = True
    run_until_quiet(world)
    assert splits[0].phase is Phase.NEEDS_SLOTS
    assert [learner.batches > 0 for learner in world.learners] == [False, True]


def waiting_world(workers: int = 2) -> World:
    """Every split waits for slots: one learner has stopped training."""
    world = World(Shape(workers=workers, slots_per_batch=2, envs_per_split=2), seed=0)
    world.learners[0].enabled = False
    run_until_quiet(world)
    assert all(split.phase is Phase.NEEDS_SLOTS for _, split in world.live_splits())
    return world


def test_workers_that_wait_for_slots_say_so() -> None:
    assert waiting_world().board.waiting.tolist() == [True, True]


@pytest.mark.parametrize("reason", ["slots", "pause"])
def test_waiting_workers_are_woken_by_a_message(reason: str) -> None:
    world = waiting_world()
    if reason == "slots":
        world.learners[0].enabled = True
        world.poll(world.learners[0])
    else:
        world.learners[0].batcher.wake_waiting_workers()
    woken = [list(inbox.records) for inbox in world.rollout_inboxes]
    assert woken == [[encode(SlotsFreed())]] * 2


def test_a_worker_that_does_not_look_is_told_only_once() -> None:
    world = waiting_world()
    for _ in range(1000):
        world.learners[0].batcher.wake_waiting_workers()
    assert [len(inbox.records) for inbox in world.rollout_inboxes] == [1, 1]


def test_a_worker_woken_in_vain_says_again_that_it_waits() -> None:
    world = waiting_world(workers=1)
    world.learners[0].batcher.wake_waiting_workers()
    (worker,) = world.rollout_workers
    world.poll(worker)
    assert world.board.waiting.tolist() == [True]


def test_a_split_that_waits_is_not_forgotten_when_another_split_of_its_worker_goes_on() -> None:
    world = World(Shape(workers=1, splits=2, envs_per_split=1, policies=2, slots_per_batch=1), seed=0)
    (worker,) = world.rollout_workers
    for _, split in world.live_splits():  # split 0 plays for policy 0, split 1 for policy 1
        split.mapping.policies[:] = split.split_id
        split.mapping._fixed = True
    world.board.paused[0] = True
    while world.learners[1].batches < 3:
        for component in world.components():
            world.poll(component)
    world.board.waiting[0] = False  # as if a batcher had just woken it
    world.poll(worker)
    assert world.board.waiting[0]

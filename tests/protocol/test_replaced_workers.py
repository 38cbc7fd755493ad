"""Components die at any moment and are replaced: no answer is given twice, no life is mixed with another."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.protocol.echo import EchoPolicy, Habits
from tests.protocol.shapes import Shape, random_shape, try_schedules
from tests.protocol.test_taking_turns import turns_shape
from tests.protocol.world import World

BLOCK = 50


def roomy(shape: Shape) -> Shape:
    """So many slots that no split can keep another waiting."""
    agents = shape.workers * shape.splits * shape.agents_per_split
    return Shape(**vars(shape) | {"spare_slots": 2 * agents})


def every_split_steps(world: World) -> bool:
    """Whether every split gets an answer and steps within a bounded number of fair rounds."""
    ticks = [split.tick for _, split in world.live_splits()]
    assert len(ticks) == world.shape.workers * world.shape.splits
    for _ in range(20):
        for component in world.components():
            world.poll(component)
        for learner in world.learners:
            while len(learner.batcher) >= world.shape.slots_per_batch:
                world.poll(learner)
        now = [split.tick for _, split in world.live_splits()]
        if all(tick != before for tick, before in zip(now, ticks, strict=True)):
            return True
    return False


def kill_policy_worker(world: World) -> None:
    worker: Any = world.rng.choice(list(world.policy_workers.values()))
    if worker is None:
        return
    acting = worker.acting
    assert isinstance(acting, EchoPolicy)
    if world.rng.random() < 0.5:
        acting.dies_in_act = True  # after it has written, before it answers
    else:
        world.remove(worker)


def kill_rollout_worker(world: World) -> None:
    if world.rng.random() < 0.5:
        world.rng.choice(world.batcher_inboxes).kills_next_sender = True
        return
    worker = world.rng.choice(world.rollout_workers)
    if worker is not None:
        world.remove(worker)


def restart_learner(world: World) -> None:
    world.replace_learner(world.rng.randrange(world.shape.policies))


def end_quietly(world: World) -> None:
    """Nobody dies any more, and everybody is there."""
    for inbox in world.batcher_inboxes:
        inbox.kills_next_sender = False
    for worker in world.policy_workers.values():
        if worker is not None:
            worker.acting.dies_in_act = False  # type: ignore[attr-defined]
    for env in world.envs:
        env.habits = Habits()
    world.habits = Habits()
    world.replace_dead()


def run_with_deaths(world: World, kinds: list[Any]) -> None:
    rng = world.rng
    for _ in range(8):
        world.run(rng.randint(0, 25))
        rng.choice(kinds)(world)
        world.run(rng.randint(0, 25))
        if rng.random() < 0.7:
            world.replace_dead()
    end_quietly(world)
    world.run(30)
    world.check_everything_is_accounted_for()


@pytest.mark.parametrize("first", range(0, 200, BLOCK))
def test_a_lost_policy_worker_leaves_no_split_waiting_and_no_request_is_answered_twice(first: int) -> None:
    def schedule(seed: int) -> None:
        rng = random.Random(seed)
        world = World(roomy(random_shape(rng, policy_workers=rng.randint(1, 2))), seed)
        run_with_deaths(world, [kill_policy_worker])
        assert every_split_steps(world)
        assert world.goes_on()

    try_schedules(range(first, first + BLOCK), schedule)


@pytest.mark.parametrize("first", range(0, 200, BLOCK))
def test_no_trajectory_mixes_two_lives_of_a_rollout_worker_and_no_slot_is_lost(first: int) -> None:
    def schedule(seed: int) -> None:
        rng = random.Random(seed)
        world = World(random_shape(rng), seed, Habits(crash=rng.choice((0.0, 0.02))))
        run_with_deaths(world, [kill_rollout_worker])
        assert world.goes_on()

    try_schedules(range(first, first + BLOCK), schedule)


def test_everybody_may_die_in_one_session() -> None:
    def schedule(seed: int) -> None:
        rng = random.Random(seed)
        shape = random_shape(rng, policy_workers=rng.randint(1, 2))
        world = World(roomy(shape), seed, Habits(crash=0.01))
        run_with_deaths(world, [kill_policy_worker, kill_rollout_worker, restart_learner])
        assert every_split_steps(world)
        assert world.goes_on()

    try_schedules(range(100), schedule)


def test_taking_turns_goes_on_after_deaths() -> None:
    def schedule(seed: int) -> None:
        rng = random.Random(seed)
        world = World(turns_shape(rng), seed)
        kinds = [kill_rollout_worker, restart_learner]
        run_with_deaths(world, [*kinds, kill_policy_worker] if world.shape.policy_workers else kinds)
        for _ in range(3):
            assert world.goes_on()

    try_schedules(range(40), schedule)

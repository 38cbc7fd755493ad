"""With `--async_rl=False` everything that is trained on was collected with the weights being trained."""

from __future__ import annotations

import random

from tests.protocol.echo import Habits
from tests.protocol.shapes import Shape, random_shape, try_schedules
from tests.protocol.world import World


def turns_shape(rng: random.Random) -> Shape:
    policies = rng.randint(1, 2)
    shape = random_shape(rng, policies=policies, envs_per_split=2)
    agents = shape.workers * shape.splits * shape.agents_per_split
    per_agent = policies * rng.randint(1, 2)
    return Shape(
        **vars(shape)
        | {"trajectories_per_iteration": per_agent, "slots_per_batch": agents * per_agent // policies}
    )


def test_every_trajectory_of_an_iteration_was_collected_after_the_one_before_it_had_finished() -> None:
    def schedule(seed: int) -> None:
        rng = random.Random(seed)
        world = World(turns_shape(rng), seed)
        for _ in range(3):
            world.run(60)
            assert world.goes_on()
        world.check_everything_is_accounted_for()
        for learner in world.learners:
            for iteration, versions in enumerate(learner.versions_seen):
                assert versions <= {iteration}
        assert any({2} in learner.versions_seen for learner in world.learners)

    try_schedules(range(40), schedule)


def test_trajectories_in_which_nobody_acted_are_sent_too_because_the_learner_counts() -> None:
    unused = 0

    def schedule(seed: int) -> None:
        nonlocal unused
        rng = random.Random(seed)
        shape = Shape(
            agents_per_env=2,
            envs_per_split=1,
            rollout=2,
            trajectories_per_iteration=1,
            slots_per_batch=4,
            policy_workers=seed % 2,
        )
        world = World(shape, seed, Habits(inactive=0.5, terminate=0.1, time_out=0.0))
        for _ in range(4):
            world.run(rng.randint(0, 100))
            assert world.goes_on()
        world.check_everything_is_accounted_for()
        for trace in world.traces.values():
            unused += sum(not any(trace.rows[n].valid for n in trace.trajectory(f)) for f in trace.ends)

    try_schedules(range(30), schedule)
    assert unused > 0

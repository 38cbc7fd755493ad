"""What the engine makes of deaths: which component is replaced, how soon, and when it gives up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sample_factory.algorithms.appo.board import Activity
from sample_factory.algorithms.appo.engine import ComponentFailedError, ParallelEngine
from sample_factory.algorithms.appo.inboxes import Channels
from sample_factory.algorithms.appo.plan import Plan
from sample_factory.algorithms.appo.site import Site, number_specs
from sample_factory.config.parsing import default_cfg
from sample_factory.processes.kernel_lock import NoLock
from sample_factory.processes.shared_memory import SharedArrays
from sample_factory.processes.supervision import Death


class Registry:
    """A supervisor that only writes down who shall be restarted, after how many failures in a row."""

    def __init__(self) -> None:
        self.restarts: list[tuple[str, int]] = []

    def restart(self, name: str, failures_in_a_row: int) -> float:
        self.restarts.append((name, failures_in_a_row))
        return 0.0


class Scene:
    def __init__(self, max_worker_restarts: int = 3) -> None:
        cfg = default_cfg()
        cfg["num_workers"], cfg["num_envs_per_worker"] = 2, 6
        cfg["inference"], cfg["max_worker_restarts"] = "rollout_workers", max_worker_restarts
        plan = Plan.make(cfg, 1, num_gpus=0, seed=0)
        nothing: Any = None
        self.site = Site(
            cfg=cfg,
            plan=plan,
            probe=nothing,
            user_code=nothing,
            directory=Path("nowhere"),
            numbers=SharedArrays(number_specs(plan)),
            trajectories=nothing,
            weights=[],
            lock=NoLock(),
            channels=Channels.make(plan, local=True),
            resumed_version=0,
        )
        self.registry: Any = Registry()
        self.engine = ParallelEngine(self.site, self.registry)
        self.deaths = 0

    def die(self, name: str = "rollout_worker_1", cause: str = "killed", **options: Any) -> None:
        self.deaths += 1
        facts = {"started": True, "trace": f"stack {self.deaths}", "deaths": self.deaths} | options
        self.engine._handle(Death(name=name, cause=f"{cause} {self.deaths}", **facts))

    def work(self, name: str, seconds: float) -> None:
        row = self.site.plan.component_names().index(name)
        self.site.board().seconds[row, Activity.TRAINING] += seconds


def test_deaths_in_a_row_are_counted_and_end_the_session_with_the_first_cause():
    scene = Scene(max_worker_restarts=3)
    for _ in range(3):
        scene.die()
    with pytest.raises(
        ComponentFailedError, match=r"^rollout_worker_1 failed: killed 1; .*4 deaths"
    ) as caught:
        scene.die()
    assert scene.registry.restarts == [("rollout_worker_1", count) for count in (1, 2, 3)]
    assert caught.value.trace == "stack 1"


def test_the_environments_of_the_dead_and_their_seeds_are_told():
    scene = Scene(max_worker_restarts=0)
    scene.site.board().sampled_frames[1] = 4321
    with pytest.raises(ComponentFailedError) as caught:
        scene.die()
    seed = scene.site.plan.seed_for(0, 0, 0, 6)  # environments, first session, first life, environment 6
    assert f"it had environments 6 (seed {seed}), 7 (seed" in str(caught.value)
    assert "and had sampled 4321 frames" in str(caught.value)


def test_a_tenth_of_a_second_of_work_starts_the_count_of_a_learner_anew():
    """Workers that others kill every few seconds may have little to do in between."""
    scene = Scene()
    for seconds in (0.0, 0.05, 0.05, 0.15, 0.0):
        scene.work("learner_0", seconds)
        scene.die("learner_0")
    assert [count for _, count in scene.registry.restarts] == [1, 2, 3, 1, 2]


def test_a_second_of_sampling_counts_only_with_a_rollout_handed_over():
    """An environment that takes long for a step and dies in each episode makes no progress."""
    scene = Scene()
    for seconds, rollouts in ((0.0, 0), (5.0, 0), (5.0, 1), (0.5, 1)):
        scene.work("rollout_worker_1", seconds)
        scene.site.board().collected[1] += rollouts
        scene.die()
    assert [count for _, count in scene.registry.restarts] == [1, 2, 1, 2]


def test_ten_rollouts_start_the_count_anew_where_steps_are_cheap():
    scene = Scene()
    for rollouts in (0, 9, 10, 0):
        scene.site.board().collected[1] += rollouts
        scene.die()
    assert [count for _, count in scene.registry.restarts] == [1, 2, 1, 2]


def test_components_are_counted_apart():
    scene = Scene()
    for name in ("rollout_worker_0", "rollout_worker_1", "learner_0", "rollout_worker_0"):
        scene.die(name)
    assert [count for _, count in scene.registry.restarts] == [1, 1, 1, 2]


def test_an_exception_at_the_first_start_is_a_set_up_error_and_ends_the_session_at_once():
    with pytest.raises(ComponentFailedError, match="rollout_worker_1 failed to start: no such game"):
        Scene().die(cause="no such game", started=False, raised=True)


@pytest.mark.parametrize("options", [{"raised": False}, {"raised": True, "deaths": 2}])
def test_any_other_death_before_the_start_is_bounded_like_later_ones(options: dict[str, Any]):
    scene = Scene()
    scene.die(started=False, **options)
    assert scene.registry.restarts == [("rollout_worker_1", 1)]


def test_a_failure_that_says_it_is_final_is_not_repeated():
    with pytest.raises(ComponentFailedError, match="learner_0 failed: not finite 1"):
        Scene().die("learner_0", cause="not finite", is_final=True, raised=True)


def test_only_environments_have_the_limits_of_environments():
    scene = Scene()
    scene.site.cfg["env_step_timeout_seconds"] = scene.site.cfg["reset_timeout_seconds"] = 5
    rollout, learner = (scene.engine._spec(name) for name in ("rollout_worker_0", "learner_0"))
    assert (rollout.silence_limit_sec, rollout.start_limit_sec) == (5.0, 5.0)
    assert (learner.silence_limit_sec, learner.start_limit_sec) == (600.0, 600.0)

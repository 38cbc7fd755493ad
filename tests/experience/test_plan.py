"""Numbers of whole sessions, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from sample_factory.algorithms.appo.plan import Plan
from sample_factory.config.config import Config
from sample_factory.config.parsing import default_cfg


def cfg_with(**settings: Any) -> Config:
    return Config.from_dict(default_cfg().to_dict() | settings)


DMLAB_30 = {
    "num_workers": 90,
    "num_envs_per_worker": 12,
    "worker_num_splits": 2,
    "num_policies": 4,
    "with_pbt": True,
    "batch_size": 2048,
    "rollout": 32,
    "recurrence": 32,
}


def make_plan(settings: dict[str, Any], agents: int = 1, gpus: int = 1) -> Plan:
    return Plan.make(cfg_with(**settings), agents, gpus, seed=0)


def test_dmlab_30_on_four_gpus() -> None:
    plan = make_plan(DMLAB_30, gpus=4)
    assert (plan.num_splits, plan.envs_per_split, plan.agents_per_split) == (2, 6, 6)
    assert plan.slots_per_batch == 64
    assert plan.backlog_slots == 128
    assert plan.num_slots == 2086
    assert plan.min_requests == 7
    assert plan.policy_workers_per_policy == 1
    assert plan.trajectories_per_iteration == 0
    assert len(plan.component_names()) == 90 + 4 + 4


def test_without_a_gpu_rollout_workers_run_the_networks_and_need_no_splits() -> None:
    plan = make_plan(DMLAB_30, gpus=0)
    assert plan.local_inference
    assert (plan.num_splits, plan.envs_per_split, plan.policy_workers_per_policy) == (1, 12, 0)
    assert plan.num_slots == 2086


@pytest.mark.parametrize(
    ("settings", "gpus", "local"),
    [
        ({}, 0, True),
        ({}, 2, False),
        ({"device": "cpu"}, 2, True),
        ({"inference": "policy_workers"}, 0, False),
        ({"inference": "rollout_workers"}, 2, True),
    ],
)
def test_where_inference_runs(settings: dict[str, Any], gpus: int, local: bool) -> None:
    assert make_plan(settings, gpus=gpus).local_inference is local


def test_a_population_that_may_grow_its_batches_gets_room_for_them() -> None:
    settings = DMLAB_30 | {"pbt_optimize_batch_size": True, "num_minibatches_to_accumulate": 0}
    # batches may grow to 96 slots, more than the backlog of 0
    assert make_plan(settings).num_slots == 1919  # ceil(1.3 * (91 * 12 + 4 * 96))


def test_several_agents_and_minibatches() -> None:
    plan = make_plan(
        {
            "num_workers": 2,
            "num_envs_per_worker": 4,
            "worker_num_splits": 2,
            "batch_size": 64,
            "num_batches_per_iteration": 3,
            "rollout": 16,
        },
        agents=5,
    )
    assert plan.agents_per_split == 10
    assert plan.slots_per_batch == 12
    assert plan.backlog_slots == 24
    assert plan.num_slots == 110  # ceil(1.3 * (3 * 20 + 24))


def test_taking_turns_each_agent_collects_what_fills_the_batches() -> None:
    settings = {
        "async_rl": False,
        "num_workers": 4,
        "num_envs_per_worker": 2,
        "rollout": 8,
        "batch_size": 128,
    }
    assert make_plan(settings).trajectories_per_iteration == 2
    assert make_plan(settings | {"num_policies": 2}).trajectories_per_iteration == 4


def test_seeds_differ_from_place_to_place_and_follow_from_the_session_seed() -> None:
    plan = make_plan({})
    seeds = {plan.seed_for(a, b) for a in range(5) for b in range(100)}
    assert len(seeds) == 500
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert plan.seed_for(1, 2) == make_plan({}).seed_for(1, 2)
    assert plan.seed_for(1, 2) != Plan.make(cfg_with(), 1, 1, seed=1).seed_for(1, 2)


def test_components_are_named_in_the_order_in_which_they_are_polled() -> None:
    plan = make_plan({"num_workers": 2, "num_policies": 2})
    assert plan.component_names() == [
        "rollout_worker_0",
        "rollout_worker_1",
        "policy_worker_0_0",
        "policy_worker_1_0",
        "learner_0",
        "learner_1",
    ]

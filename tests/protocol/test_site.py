"""The parts of the building site that need neither environments nor networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sample_factory.algorithms.appo import inboxes
from sample_factory.algorithms.appo.board import Board
from sample_factory.algorithms.appo.inboxes import Channels
from sample_factory.algorithms.appo.messages import ActionsReady, encode
from sample_factory.algorithms.appo.plan import Plan
from sample_factory.algorithms.appo.site import Site
from sample_factory.algorithms.appo.trajectories import SlotLedger, SlotState
from sample_factory.config.config import Config
from sample_factory.config.parsing import default_cfg
from sample_factory.processes.kernel_lock import NoLock
from sample_factory.processes.shared_memory import SharedArrays

SETTINGS = {
    "num_workers": 3,
    "num_envs_per_worker": 4,
    "worker_num_splits": 2,
    "num_policies": 2,
    "policy_workers_per_policy": 2,
    "batch_size": 128,
    "rollout": 32,
}


def make_plan() -> Plan:
    return Plan.make(Config.from_dict(default_cfg().to_dict() | SETTINGS), 1, num_gpus=1, seed=0)


def make_site() -> Site:
    plan = make_plan()
    board = Board.specs(2, 3, 2, plan.agents_per_split, 1)
    nothing: Any = None
    return Site(
        cfg=default_cfg(),
        plan=plan,
        probe=nothing,
        user_code=nothing,
        directory=Path("nowhere"),
        numbers=SharedArrays(SlotLedger.specs(plan.num_slots, 2) | board),
        trajectories=nothing,
        weights=[],
        lock=NoLock(),
        channels=Channels.make(plan, local=True),
        resumed_version=0,
    )


def test_a_dead_rollout_worker_leaves_no_slots_messages_or_valid_requests_behind() -> None:
    site = make_site()
    site.ledger().claim(1, 2)
    site.ledger().claim(2, 2)
    site.board().split_ticks[:] = [[5, 6], [7, 2**31 - 1], [9, 9]]
    site.channels.rollout_workers[1].send([encode(ActionsReady(0, 0, 7))])
    assert site.forget_rollout_worker(1) == 2
    assert site.ledger().counts()[SlotState.FILLING] == 2
    assert site.channels.rollout_workers[1].receive() == []
    assert site.board().split_ticks.tolist() == [[5, 6], [8, 0], [9, 9]]


def test_inboxes_are_as_large_as_the_most_that_can_be_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    capacities: list[int] = []
    monkeypatch.setattr(inboxes, "PipeChannel", capacities.append)
    monkeypatch.setattr(inboxes, "PipeChannels", list)
    plan = make_plan()
    Channels.make(plan, local=False)
    rollout_workers, policy_workers, batchers = capacities[:3], capacities[3:7], capacities[7:]
    # 2 splits x 2 policies: an answer and a wake-up each; 4 policy workers may be replaced
    assert rollout_workers == [4 + 4 + 4] * 3
    # 3 workers x 2 splits, each request once more after a replacement
    assert policy_workers == [2 * 6] * 4
    # a slot may be announced again if it was found first: once per agent of a split in each worker
    assert batchers == [plan.num_slots + 3 * 2] * 2

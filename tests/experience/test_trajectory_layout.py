from __future__ import annotations

import numpy as np
import pytest

from sample_factory.algorithms.appo.trajectories import (
    StoreSize,
    TrajectoryLayout,
    TrajectoryStore,
    slots_needed,
)
from sample_factory.processes.shared_memory import SharedArrays

LAYOUT = TrajectoryLayout(
    rollout=4,
    observations={"obs": ((3, 8, 8), "uint8"), "measurements": ((2,), "float32")},
    num_actions=2,
    num_action_parameters=5,
    rnn_state_size=6,
)


def test_observations_and_recurrent_states_have_one_row_more_than_there_are_steps() -> None:
    shapes = {name: (spec.shape, spec.dtype) for name, spec in LAYOUT.specs(10).items()}
    assert shapes == {
        "obs/obs": ((10, 5, 3, 8, 8), "uint8"),
        "obs/measurements": ((10, 5, 2), "float32"),
        "rnn_states": ((10, 5, 6), "float32"),
        "outputs": ((10, 4, 2 + 5 + 1 + 1), "float32"),
        "policy_versions": ((10, 4), "int64"),
        "policy_ids": ((10, 4), "int16"),
        "rewards": ((10, 4), "float32"),
        "dones": ((10, 4), "bool"),
        "time_outs": ((10, 4), "bool"),
        "frames": ((10, 4), "int32"),
    }


def test_a_fresh_store_belongs_to_nobody_and_shows_when_it_is_trained_on() -> None:
    store = TrajectoryStore(LAYOUT, SharedArrays(LAYOUT.specs(3)))
    assert store.num_slots == 3
    assert (store.policy_ids == -1).all()
    assert (store.policy_versions == -1).all()
    assert np.allclose(store.rewards, -42.42)
    assert not store.dones.any()


def test_actions_are_the_first_columns_of_the_outputs() -> None:
    store = TrajectoryStore(LAYOUT, SharedArrays(LAYOUT.specs(1)))
    store.outputs[0, 2] = np.arange(9)
    assert store.actions[0, 2].tolist() == [0, 1]


def test_megabytes_of_a_store() -> None:
    # 1024 slots of 5 rows x (192 + 8 + 24) and 4 steps x (36 + 8 + 2 + 4 + 1 + 1 + 4) bytes
    assert LAYOUT.megabytes(1024) == pytest.approx((5 * 224 + 4 * 56) * 1024 / 2**20)


@pytest.mark.parametrize(
    ("policies", "slots_per_batch", "agents_per_split", "expected"),
    [(1, 1, 1, 1), (1, 4, 2, 5), (2, 4, 3, 9), (4, 64, 12, 264)],
)
def test_the_smallest_store(
    policies: int, slots_per_batch: int, agents_per_split: int, expected: int
) -> None:
    assert slots_needed(policies, slots_per_batch, agents_per_split) == expected


def test_dmlab_30_has_as_many_slots_as_version_1_had_buffers() -> None:
    size = StoreSize(
        num_workers=90,
        agents_per_worker=12,
        agents_per_split=12,
        num_policies=4,
        slots_per_batch=64,
        backlog_slots=128,
        excess_ratio=1.3,
    )
    assert size.num_slots() == 2086  # ceil(1.3 * (91 * 12 + 4 * 128))


def test_a_store_is_never_smaller_than_it_must_be() -> None:
    size = StoreSize(
        num_workers=1,
        agents_per_worker=1,
        agents_per_split=1,
        num_policies=3,
        slots_per_batch=100,
        backlog_slots=1,
        excess_ratio=1.0,
    )
    assert size.num_slots() == 298

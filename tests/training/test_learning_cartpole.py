"""CartPole-v1 is solved in every way of running."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.learning import CARTPOLE, mean_reward

pytestmark = [pytest.mark.learning, pytest.mark.slow]

WAYS = {
    "asynchronously, inference in rollout workers": (),
    "asynchronously, inference in policy workers": ("--inference=policy_workers", "--worker_num_splits=2"),
    "in turns": ("--async_rl=False",),
    "in one process": ("--serial_mode=True",),
}
SHOWN = "asynchronously, inference in rollout workers"


@pytest.mark.parametrize(
    "way", [way if way == SHOWN else pytest.param(way, marks=pytest.mark.long) for way in WAYS]
)
def test_cartpole_is_solved(tmp_path: Path, way: str):
    assert mean_reward(tmp_path, *CARTPOLE, *WAYS[way])[0] >= 475.0

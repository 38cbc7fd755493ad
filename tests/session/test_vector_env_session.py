"""Environments that step as one, in whole sessions."""

import json

from gymnasium.vector import SyncVectorEnv

from sample_factory.algorithms.appo.exits import ExitStatus
from sample_factory.envs.registry import register_env
from tests.doubles import CountingEnv
from tests.session.running import latest, train_serially


class WatchedVector(SyncVectorEnv):
    """Remembers how many copies were stepped by each call."""

    calls: list[int] = []  # noqa: RUF012

    def step(self, actions):
        WatchedVector.calls.append(len(actions))
        return super().step(actions)


def make_watched(name, cfg=None, env_config=None, num_envs=1):
    return WatchedVector([CountingEnv] * num_envs)


def test_the_engine_steps_a_registered_vector_environment_in_one_call(tmp_path):
    WatchedVector.calls.clear()
    register_env("watched_", make_watched)
    flags = ("--train_for_env_steps=600", "--inference=rollout_workers")
    assert train_serially(tmp_path, "watched_1", *flags) == ExitStatus.SUCCESS
    assert set(WatchedVector.calls) == {4}
    assert latest(tmp_path).state["env_steps"] > 600
    # Ten steps of one reward each; the reset that follows is no step.
    assert json.loads((tmp_path / "experiment" / "run.json").read_text())["result"]["score"] == 10.0

"""The check that families' tests rely on notices what it should."""

import numpy as np
import pytest

from sample_factory.envs.registry import register_env, temporary_registrations
from tests.doubles import CountingEnv
from tests.envs.contract_check import check_env


class Faulty(CountingEnv):
    """A counting environment with one result replaced."""

    def __init__(self, **replaced):
        super().__init__()
        self.replaced = replaced

    def step(self, action):
        names = ("obs", "reward", "terminated", "truncated", "info")
        result = dict(zip(names, super().step(action), strict=True)) | self.replaced
        return tuple(result[name] for name in names)


@pytest.mark.parametrize(
    "replaced",
    [
        {"obs": np.zeros(2, np.float32)},
        {"obs": np.array([-1.0], np.float32)},
        {"reward": float("nan")},
        {"terminated": 1},
        {"truncated": None},
        {"info": None},
        {"info": {"num_frames": -1}},
        {"info": {"is_active": "yes"}},
        {"terminated": True, "info": {"true_reward": float("inf")}},
    ],
)
def test_a_broken_step_is_noticed(replaced):
    with temporary_registrations():
        register_env("faulty_", lambda name: Faulty(**replaced))
        with pytest.raises(AssertionError):
            check_env("faulty_env", steps=12)


def test_an_environment_that_ignores_its_seed_is_noticed():
    class Unseeded(CountingEnv):
        def step(self, action):
            obs, _, terminated, truncated, info = super().step(action)
            return obs, float(np.random.default_rng().random()), terminated, truncated, info

    with temporary_registrations():
        register_env("unseeded_", lambda name: Unseeded())
        with pytest.raises(AssertionError, match="the same seed gave different rewards"):
            check_env("unseeded_env", steps=12, reproducible=True)

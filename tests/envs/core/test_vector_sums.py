"""Returns and lengths of episodes that a vector reports."""

import numpy as np

from sample_factory.envs.vector import ObsRows, SingleAgentVector
from tests.doubles import CountingEnv


class TenthsEnv(CountingEnv):
    """A tenth of a reward at every step, which no float can hold exactly."""

    def step(self, action):
        obs, _, terminated, truncated, info = super().step(action)
        return obs, 0.1, terminated, truncated, info


def test_an_episodes_reward_is_the_sum_of_what_the_environment_gave():
    vector = SingleAgentVector([TenthsEnv(length=3)], seeds=[0])
    rows = ObsRows({"obs": np.zeros((1, 1, 1), np.float32)}, np.arange(1))
    vector.reset(rows)
    episodes = [end for _ in range(3) for end in vector.step([0], rows, 0).episodes]
    assert [(end.reward, end.length_frames) for end in episodes] == [(0.1 + 0.1 + 0.1, 3)]

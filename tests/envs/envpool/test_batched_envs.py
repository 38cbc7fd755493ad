"""The batched contract on gymnasium's vector environments."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sample_factory.envs.batched import (
    BatchedEnv,
    FirstOfBatch,
    GymnasiumBatchedEnv,
    ObservationLayout,
    as_batched,
    native_actions,
)
from sample_factory.envs.spaces import UnsupportedSpaceError


class Counter(gymnasium.Env):
    """Observes its step; ends after `length` steps, by time if that is odd; two frames a step."""

    def __init__(self, length):
        self.observation_space = spaces.Box(0, 100, (1,), np.float32)
        self.action_space = spaces.Discrete(3, start=5)
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {"num_frames": 0}

    def step(self, action):
        assert action in self.action_space
        self.steps += 1
        over = self.steps == self.length
        info = {"num_frames": 2}
        if over:
            info |= {"true_reward": 10.0 * self.length, "episode_extra_stats": {"length": self.length}}
        return self._seen(), float(action), over and self.length % 2 == 0, over and self.length % 2 == 1, info

    def _seen(self):
        return np.array([self.steps], np.float32)


def batch_of(*lengths, mode=AutoresetMode.NEXT_STEP):
    makers = [lambda length=length: Counter(length) for length in lengths]
    return GymnasiumBatchedEnv(SyncVectorEnv(makers, autoreset_mode=mode))


def test_the_step_after_an_end_is_marked_as_a_reset_and_brings_the_first_observation():
    env = batch_of(2, 3)
    env.reset(seed=0)
    steps = [env.step(np.zeros(2)) for _ in range(5)]
    assert [step.obs["obs"][:, 0].tolist() for step in steps] == [[1, 1], [2, 2], [0, 3], [1, 0], [2, 1]]
    assert [step.terminated.tolist() for step in steps] == [[0, 0], [1, 0], [0, 0], [0, 0], [1, 0]]
    assert [step.truncated.tolist() for step in steps] == [[0, 0], [0, 0], [0, 1], [0, 0], [0, 0]]
    assert [step.resets.tolist() for step in steps] == [[0, 0], [0, 0], [1, 0], [0, 1], [0, 0]]


def test_a_reset_takes_no_frames():
    env = batch_of(2, 3)
    env.reset(seed=0)
    assert [env.step(np.zeros(2)).frames.tolist() for _ in range(4)] == [[2, 2], [2, 2], [0, 2], [2, 0]]


def test_what_an_episode_has_to_tell_comes_with_its_end():
    env = batch_of(2, 3)
    env.reset(seed=0)
    told = [env.step(np.zeros(2)).infos for _ in range(3)]
    assert told == [
        [],
        [(0, {"true_reward": 20.0, "episode_extra_stats": {"length": 2}})],
        [(1, {"true_reward": 30.0, "episode_extra_stats": {"length": 3}})],
    ]


def test_policies_count_actions_from_zero():
    env = batch_of(9)
    env.reset(seed=0)
    assert env.action_space == spaces.Discrete(3)
    assert env.step(np.array([[2.0]], np.float32)).rewards.tolist() == [7.0]


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_other_ways_of_resetting_are_refused(mode):
    with pytest.raises(ValueError, match=r"AutoresetMode\.NEXT_STEP"):
        batch_of(2, mode=mode)


def test_gymnasium_vectors_are_wrapped_and_batched_environments_pass():
    wrapped = as_batched(SyncVectorEnv([lambda: Counter(2)]))
    assert isinstance(wrapped, BatchedEnv)
    assert as_batched(wrapped) is wrapped
    with pytest.raises(TypeError, match="VectorEnv"):
        as_batched(Counter(2))


def test_box_actions_are_clipped_and_get_the_type_of_the_space():
    space = spaces.Box(-1.0, 1.0, (2,), np.float64)
    actions = native_actions(np.array([[3.0, 0.5], [-2.0, 1.0]], np.float32), space)
    assert actions.dtype == np.float64
    assert actions.tolist() == [[1.0, 0.5], [-1.0, 1.0]]


def test_nested_and_discrete_observations_become_flat_arrays():
    layout = ObservationLayout(
        spaces.Dict(
            {"arm": spaces.Dict({"angle": spaces.Box(0, 1, (2,))}), "mode": spaces.Discrete(3, start=1)}
        )
    )
    arrays = layout.arrays({"arm": {"angle": np.ones((2, 2))}, "mode": np.array([3, 1])})
    assert {key: space.shape for key, space in layout.space.items()} == {"arm/angle": (2,), "mode": (3,)}
    assert arrays["mode"].tolist() == [[0, 0, 1], [1, 0, 0]]
    assert arrays["arm/angle"].tolist() == [[1, 1], [1, 1]]


def test_observations_that_are_no_arrays_are_refused():
    with pytest.raises(UnsupportedSpaceError, match="Tuple"):
        ObservationLayout(spaces.Tuple((spaces.Discrete(2),)))


def test_one_copy_serves_as_an_ordinary_environment():
    env = FirstOfBatch(batch_of(2))
    assert env.reset(seed=0)[0]["obs"].tolist() == [0]
    env.step(0)
    obs, reward, terminated, truncated, info = env.step(1)
    assert (obs["obs"].tolist(), reward, terminated, truncated) == ([2], 6.0, True, False)
    assert (info["num_frames"], info["true_reward"]) == (2, 20.0)
    assert env.reset()[0]["obs"].tolist() == [0]
    assert env.step(0)[0]["obs"].tolist() == [1]
    assert env.reset()[0]["obs"].tolist() == [0]

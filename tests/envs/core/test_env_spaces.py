"""Action spaces of our own."""

import pickle

import pytest
from gymnasium import spaces

from sample_factory.envs.spaces import Discretized


def test_discretized_actions_are_evenly_spaced_with_both_ends():
    space = Discretized(5, -10.0, 10.0)
    assert [space.to_continuous(action) for action in range(5)] == [-10.0, -5.0, 0.0, 5.0, 10.0]


def test_a_discretized_space_is_a_discrete_space():
    space = Discretized(11, -1.0, 1.0)
    assert isinstance(space, spaces.Discrete)
    assert space.n == 11
    assert space.contains(10) and not space.contains(11)


def test_discretized_spaces_differ_when_their_numbers_do():
    assert Discretized(3, -1.0, 1.0) == Discretized(3, -1.0, 1.0)
    assert Discretized(3, -1.0, 1.0) != Discretized(3, -2.0, 1.0)
    assert Discretized(3, -1.0, 1.0) != spaces.Discrete(3)


def test_a_discretized_space_survives_pickling():
    space = pickle.loads(pickle.dumps(Discretized(3, -1.0, 2.0)))
    assert space.to_continuous(2) == 2.0


@pytest.mark.parametrize("arguments", [(1, -1.0, 1.0), (3, 1.0, 1.0), (3, 2.0, 1.0)])
def test_a_discretized_space_without_a_range_is_refused(arguments):
    with pytest.raises(ValueError, match="min_action < max_action"):
        Discretized(*arguments)

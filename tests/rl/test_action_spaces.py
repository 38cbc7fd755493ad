"""Columns of the action array for every kind of action space, and the way back to the environment."""

import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces

from sample_factory.rl.action_spaces import action_heads, num_action_parameters, num_actions, to_env_actions

MIXED = spaces.Tuple(
    [
        spaces.Discrete(3),
        spaces.Box(-1, 1, (2,)),
        spaces.MultiDiscrete([2, 4]),
        spaces.MultiBinary(2),
    ]
)


class Discretized(spaces.Discrete):
    """A Discrete by inheritance, as environments define them."""


@pytest.mark.parametrize(
    ("space", "actions", "parameters"),
    [
        (spaces.Discrete(5), 1, 5),
        (Discretized(11), 1, 11),
        (spaces.MultiDiscrete([3, 2, 4]), 3, 9),
        (spaces.MultiDiscrete([[2, 3], [4, 5]]), 4, 14),
        (spaces.MultiBinary(4), 4, 4),
        (spaces.MultiBinary([2, 3]), 6, 6),
        (spaces.Box(-1, 1, (6,)), 6, 12),
        (spaces.Tuple([spaces.Discrete(3), spaces.Discrete(21)]), 2, 24),
        (MIXED, 1 + 2 + 2 + 2, 3 + 4 + 6 + 2),
    ],
)
def test_number_of_columns_and_parameters(space, actions, parameters):
    assert num_actions(space) == actions
    assert num_action_parameters(space) == parameters


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Box(-1, 1, (2, 3)), r"shape \(2, 3\).*shape \(6,\)"),
        (spaces.Box(-1, 1, ()), r"shape \(\)"),
        (spaces.Box(0, 9, (2,), dtype=np.int32), "int32.*use dtype float32, or MultiDiscrete"),
        (spaces.Dict({"a": spaces.Discrete(2)}), "use Discrete, MultiDiscrete"),
        (spaces.Tuple([spaces.Tuple([spaces.Discrete(2)])]), "flatten it into one Tuple"),
    ],
)
def test_spaces_that_cannot_be_used_are_refused_with_a_way_out(space, message):
    with pytest.raises(ValueError, match=message):
        action_heads(space)


def test_discrete_actions_are_what_the_space_itself_would_sample():
    space = spaces.Discrete(4)
    actions = to_env_actions(space, np.array([[3.0], [0.0]], dtype=np.float32))
    assert actions == [3, 0]
    assert {type(action) for action in actions} == {type(space.sample())}


def test_discrete_actions_are_counted_from_the_start_of_the_space():
    assert to_env_actions(spaces.Discrete(4, start=-1), np.array([[0.0], [3.0]], dtype=np.float32)) == [-1, 2]


def test_multi_discrete_actions_are_counted_from_the_start_of_the_space():
    space = spaces.MultiDiscrete([3, 3], start=[10, -1])
    actions = to_env_actions(space, np.array([[0.0, 2.0]], dtype=np.float32))
    assert actions[0].tolist() == [10, 1]


def test_box_actions_are_not_clipped():
    actions = to_env_actions(spaces.Box(-1, 1, (2,)), np.array([[5.0, -7.0]], dtype=np.float32))
    assert actions[0].tolist() == [5.0, -7.0]


def test_tuple_actions_become_tuples_in_the_order_of_members():
    row = np.array([[2.0, 0.5, -0.25, 1.0, 3.0, 0.0, 1.0]], dtype=np.float32)
    choice, real, multi, bits = to_env_actions(MIXED, row)[0]
    assert choice == 2
    assert real.tolist() == [0.5, -0.25]
    assert multi.tolist() == [1, 3]
    assert bits.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("space", "row"),
    [
        (spaces.Discrete(5, start=2), [4]),
        (spaces.MultiDiscrete([3, 2]), [2, 1]),
        (spaces.MultiDiscrete([[2, 3], [4, 5]]), [1, 2, 3, 4]),
        (spaces.MultiBinary(3), [1, 0, 1]),
        (spaces.MultiBinary([2, 2]), [1, 0, 1, 1]),
        (spaces.Box(-1, 1, (2,)), [0.5, -0.5]),
        (spaces.Box(-1, 1, (2,), dtype=np.float64), [0.5, -0.5]),
        (MIXED, [2, 0.5, -0.25, 1, 3, 0, 1]),
    ],
)
def test_every_agent_gets_an_action_its_space_contains(space, row):
    actions = to_env_actions(space, np.array([row] * 3, dtype=np.float32))
    assert len(actions) == 3
    assert all(space.contains(action) for action in actions)


@pytest.mark.parametrize("space", [spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 2])])
def test_environments_may_keep_the_actions_they_got(space):
    array = np.ones((1, 2), dtype=np.float32)
    actions = to_env_actions(space, array)
    array[:] = 0.0
    assert actions[0].tolist() == [1, 1]


def test_importing_the_module_does_not_import_torch():
    code = "import sys, sample_factory.rl.action_spaces; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

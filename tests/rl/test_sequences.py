"""Packed sequences against a loop that runs one step at a time and zeroes the state after each done."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from sample_factory.rl.sequences import build_layout, pack, piece_states, unpack, unroll

TOLERANCE = 2e-6


def step_by_step(rnn: nn.RNNBase, inputs: Tensor, state, dones: Tensor) -> Tensor:
    outputs = []
    for t in range(inputs.shape[1]):
        output, state = rnn(inputs[None, :, t], state)
        outputs.append(output[0])
        if t < dones.shape[1]:
            keep = (~dones[:, t]).float()[None, :, None]
            state = tuple(s * keep for s in state) if isinstance(state, tuple) else state * keep
    return torch.stack(outputs, dim=1)


def dones_of(pattern: str, n: int, t: int) -> Tensor:
    if pattern == "none":
        return torch.zeros(n, t, dtype=torch.bool)
    if pattern == "all":
        return torch.ones(n, t, dtype=torch.bool)
    if pattern == "periodic":
        return ((torch.arange(t)[None] + torch.arange(n)[:, None]) % 5 == 4).expand(n, t)
    return torch.rand(n, t, generator=torch.Generator().manual_seed(0)) < 0.15


def make_case(kind: type[nn.RNNBase], layers: int, n: int, t: int, d: int):
    torch.manual_seed(1)
    hidden = 8
    rnn = kind(d, hidden, layers)
    inputs = torch.randn(n, t, d, requires_grad=True)
    h = torch.randn(layers, n, hidden, requires_grad=True)
    c = torch.randn(layers, n, hidden, requires_grad=True)
    return rnn, inputs, (h, c) if kind is nn.LSTM else h


def gradients(outputs: Tensor, rnn: nn.RNNBase, inputs: Tensor, state) -> list[Tensor]:
    leaves = [*rnn.parameters(), inputs, *(state if isinstance(state, tuple) else (state,))]
    weights = torch.linspace(-1, 1, outputs.numel()).reshape(outputs.shape)  # every output counts differently
    return list(torch.autograd.grad((outputs * weights).mean(), leaves))


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("pattern", ["random", "periodic", "none", "all"])
@pytest.mark.parametrize(("t", "n", "d"), [(37, 64, 42), (5, 1, 1)])
def test_outputs_and_gradients_equal_the_step_by_step_loop(kind, layers, pattern, t, n, d):
    rnn, inputs, state = make_case(kind, layers, n, t, d)
    dones = dones_of(pattern, n, t)
    fast = unroll(rnn, inputs=inputs, initial_state=state, layout=build_layout(dones))
    slow = step_by_step(rnn, inputs, state, dones)
    torch.testing.assert_close(fast, slow, rtol=0, atol=TOLERANCE)
    for actual, expected in zip(
        gradients(fast, rnn, inputs, state), gradients(slow, rnn, inputs, state), strict=True
    ):
        torch.testing.assert_close(actual, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_an_observation_after_the_last_step_sees_the_last_done(kind):
    rnn, inputs, state = make_case(kind, 1, n=3, t=6, d=2)
    dones = torch.zeros(3, 5, dtype=torch.bool)
    dones[0, 4] = dones[1, 2] = True
    fast = unroll(rnn, inputs=inputs, initial_state=state, layout=build_layout(dones, num_steps=6))
    torch.testing.assert_close(fast, step_by_step(rnn, inputs, state, dones), rtol=0, atol=TOLERANCE)


def test_layout_by_hand():
    # Trajectory 0 ends an episode after step 0: pieces [0] and [1, 2, 3]; trajectory 1 is one piece of 4.
    # Longest first: trajectory 1 (rows 4-7), then rows 1-3, then row 0.
    layout = build_layout(torch.tensor([[True, False, False, False], [False, False, False, True]]))
    assert layout.batch_sizes.tolist() == [3, 2, 2, 1]
    assert layout.packed_to_row.tolist() == [4, 1, 0, 5, 2, 6, 3, 7]
    assert layout.piece_trajectory.tolist() == [1, 0, 0]
    assert layout.piece_is_first.tolist() == [True, False, True]
    assert not layout.is_uncut


def test_a_done_at_the_last_step_cuts_nothing():
    assert build_layout(torch.tensor([[False, False, True]])).is_uncut


def test_only_first_pieces_inherit_the_stored_state():
    layout = build_layout(torch.tensor([[True, False, False, False], [False, False, False, True]]))
    states = piece_states(torch.tensor([[[1.0], [2.0]]]), layout)
    assert states.tolist() == [[[2.0], [0.0], [1.0]]]


def test_a_stored_state_that_is_not_a_number_stays_out_of_later_pieces():
    layout = build_layout(torch.tensor([[True, False]]))
    states = piece_states(torch.tensor([[[float("nan")]]]), layout)
    assert states[0, ~layout.piece_is_first].tolist() == [[0.0]]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8), st.floats(0, 1))
def test_unpacking_what_was_packed_gives_it_back(seed, n, t, ends):
    dones = torch.rand(n, t, generator=torch.Generator().manual_seed(seed)) < ends
    layout = build_layout(dones)
    inputs = torch.arange(n * t * 2.0).reshape(n, t, 2)
    assert torch.equal(unpack(pack(inputs, layout), layout), inputs)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8), st.floats(0, 1))
def test_packed_pieces_are_sorted_and_complete(seed, n, t, ends):
    dones = torch.rand(n, t, generator=torch.Generator().manual_seed(seed)) < ends
    layout = build_layout(dones)
    assert layout.batch_sizes.sum() == n * t
    assert (layout.batch_sizes.diff() <= 0).all()
    assert layout.batch_sizes[0] == n + dones[:, :-1].sum()
    assert layout.piece_is_first.sum() == n


def test_wrong_shapes_are_refused():
    layout = build_layout(torch.zeros(2, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"inputs has shape \(3, 2, 4\), expected \(2, 3, 4\)"):
        unroll(nn.GRU(4, 4), inputs=torch.zeros(3, 2, 4), initial_state=torch.zeros(1, 2, 4), layout=layout)
    with pytest.raises(ValueError, match="dones has 3 columns, expected 6 or 5"):
        build_layout(torch.zeros(2, 3, dtype=torch.bool), num_steps=6)
    with pytest.raises(ValueError, match="dones has dtype"):
        build_layout(torch.zeros(2, 3))

"""The hand-written GRU against torch's, run one step at a time with the state zeroed after each done."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from sample_factory.rl.gru import unroll_gru

TOLERANCE = 2e-6


def step_by_step(rnn: nn.GRU, inputs: Tensor, state: Tensor, dones: Tensor) -> Tensor:
    outputs = []
    for t in range(inputs.shape[1]):
        output, next_state = rnn(inputs[None, :, t], state[None])
        state = next_state[0]
        outputs.append(output[0])
        if t < dones.shape[1]:
            state = torch.where(dones[:, t, None], 0.0, state)
    return torch.stack(outputs, dim=1)


def assert_same(n: int, t: int, d: int, hidden: int, dones: Tensor) -> None:
    torch.manual_seed(1)
    rnn = nn.GRU(d, hidden)
    inputs = torch.randn(n, t, d, requires_grad=True)
    state = torch.randn(n, hidden, requires_grad=True)
    leaves = [*rnn.parameters(), inputs, state]
    fast = unroll_gru(inputs, state, dones, rnn.all_weights[0])
    slow = step_by_step(rnn, inputs, state, dones)
    torch.testing.assert_close(fast, slow, rtol=0, atol=TOLERANCE)
    weights = torch.linspace(-1, 1, fast.numel()).reshape(fast.shape)  # every output counts differently
    for actual, expected in zip(
        torch.autograd.grad((fast * weights).mean(), leaves),
        torch.autograd.grad((slow * weights).mean(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(actual, expected, rtol=0, atol=TOLERANCE)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 12), st.integers(1, 7), st.integers(0, 10**6), st.floats(0, 1))
def test_outputs_and_gradients_equal_the_step_by_step_loop(n, t, d, seed, ends):
    dones = torch.rand(n, t, generator=torch.Generator().manual_seed(seed)) < ends
    assert_same(n, t, d, hidden=8, dones=dones)


def test_outputs_and_gradients_of_a_large_batch():
    dones = torch.rand(64, 37, generator=torch.Generator().manual_seed(0)) < 0.15
    assert_same(64, 37, 42, hidden=32, dones=dones)


def test_an_observation_after_the_last_step_sees_the_last_done():
    dones = torch.zeros(3, 5, dtype=torch.bool)
    dones[0, 4] = dones[1, 2] = True
    assert_same(3, 6, 2, hidden=4, dones=dones)


def test_gradients_agree_with_finite_differences():
    torch.manual_seed(0)
    weights = [torch.randn(*shape, dtype=torch.float64) / 2 for shape in ((9, 2), (9, 3), (9,), (9,))]
    leaves = [torch.randn(2, 4, 2, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64), *weights]
    dones = torch.tensor([[False, True, False, False], [False, False, False, True]])
    for leaf in leaves:
        leaf.requires_grad_(True)
    assert torch.autograd.gradcheck(lambda x, s, *w: unroll_gru(x, s, dones, list(w)), leaves)


def test_one_unit_by_hand():
    """reset = update = 1/2 with zero weights there; new = tanh(x + reset * h); output = (new + h) / 2."""
    input_weights, state_weights = torch.tensor([[0.0], [0.0], [1.0]]), torch.tensor([[0.0], [0.0], [1.0]])
    biases = torch.zeros(3)
    outputs = unroll_gru(
        torch.tensor([[[0.5], [1.0]]]),
        torch.tensor([[1.0]]),
        torch.tensor([[True, False]]),
        [input_weights, state_weights, biases, biases],
    )
    # tanh(0.5 + 0.5) = 0.761594; the second step starts from 0: tanh(1) / 2.
    assert outputs.flatten().tolist() == pytest.approx([(0.761594 + 1) / 2, 0.761594 / 2], abs=1e-6)


def test_a_state_that_is_not_a_number_ends_with_its_episode():
    torch.manual_seed(0)
    weights = nn.GRU(1, 2).all_weights[0]
    outputs = unroll_gru(
        torch.ones(1, 2, 1), torch.full((1, 2), float("nan")), torch.tensor([[True, False]]), weights
    )
    assert outputs[0, 0].isnan().all()
    assert outputs[0, 1].isfinite().all()


def test_wrong_shapes_are_refused():
    weights = nn.GRU(1, 2).all_weights[0]
    with pytest.raises(ValueError, match="expected 5 or 4"):
        unroll_gru(torch.ones(1, 5, 1), torch.zeros(1, 2), torch.zeros(1, 3, dtype=torch.bool), weights)

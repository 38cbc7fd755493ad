"""Gated recurrent units over whole trajectories on a CPU, with a backward pass written by hand.

`model.cores` trains with it where torch's own GRU is slow: there every step of the backward pass makes and
adds up gradients of all weights, most of its time. Here the gradients of a step's gates are kept, and two
products at the end give those of the weights. Trajectories in which episodes end are not cut: the state is
replaced by zeros there.

Invariant: outputs and gradients are those of a step-by-step loop that zeroes the state after each done, up
to the rounding of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sample_factory.rl.shapes import check_bool, check_shapes


def unroll_gru(inputs: Tensor, state: Tensor, dones: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """Outputs `[N, T', H]` of one layer.

    Args:
        inputs: `[N, T', D]`; T' is T or T + 1.
        state: before the first step, `[N, H]`.
        dones: boolean `[N, T]`; the row after a done starts from a zero state.
        weights: of inputs and of states, and their biases, as `nn.GRU` orders them.
    """
    num_trajectories, num_steps, _ = inputs.shape
    check_bool(dones=dones)
    check_shapes((num_trajectories, dones.shape[1]), dones=dones)
    if dones.shape[1] not in (num_steps, num_steps - 1):
        raise ValueError(f"dones has {dones.shape[1]} columns, expected {num_steps} or {num_steps - 1}")
    starts = torch.zeros(num_steps, num_trajectories, 1, dtype=torch.bool)  # from a zero state
    starts[1:, :, 0] = dones[:, : num_steps - 1].t()
    outputs: Tensor = _UnrolledGru.apply(inputs.transpose(0, 1).contiguous(), state, starts, *weights)
    return outputs.transpose(0, 1)


class _UnrolledGru(torch.autograd.Function):
    """Everything is `[T, N, ...]`; gates are ordered reset, update, new, side by side."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, state: Tensor, starts: Tensor, *weights: Tensor) -> Tensor:
        input_weights, state_weights, input_biases, state_biases = weights
        size = state.shape[1]
        from_inputs = (inputs.flatten(0, 1) @ input_weights.t()).add_(input_biases)
        gates = from_inputs.unflatten(0, inputs.shape[:2])  # becomes the gates in place
        states = inputs.new_empty(*inputs.shape[:2], size)  # that each step began with
        news = torch.empty_like(states)  # what the state brings to the new gate
        outputs = torch.empty_like(states)
        nothing = inputs.new_zeros(())
        for t in range(len(inputs)):
            torch.where(starts[t], nothing, state, out=states[t])
            from_state = torch.addmm(state_biases, states[t], state_weights.t())
            reset_and_update, new = gates[t].split((2 * size, size), dim=1)
            news[t] = from_state[:, 2 * size :]
            reset, update = reset_and_update.add_(from_state[:, : 2 * size]).sigmoid_().chunk(2, dim=1)
            new.addcmul_(reset, news[t]).tanh_()
            state = torch.lerp(new, states[t], update, out=outputs[t])
        ctx.save_for_backward(inputs, states, gates, news, starts, input_weights, state_weights)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, output_grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs, states, gates, news, starts, input_weights, state_weights = ctx.saved_tensors
        by_input = torch.empty_like(gates)  # gradients of what inputs and states bring to the gates
        by_state = torch.empty_like(gates)
        grad = torch.zeros_like(states[0])
        for t in reversed(range(len(inputs))):
            grad += output_grads[t]
            _gate_grads(grad, states[t], gates[t], news[t], by_input[t], by_state[t])
            update = gates[t].chunk(3, dim=1)[1]
            grad = torch.addmm(grad.mul_(update), by_state[t], state_weights)
            grad.masked_fill_(starts[t], 0.0)
        flat_input, flat_state = by_input.flatten(0, 1), by_state.flatten(0, 1)
        input_grads = (flat_input @ input_weights).view_as(inputs) if ctx.needs_input_grad[0] else None
        return (
            input_grads,
            grad,
            None,
            flat_input.t() @ inputs.flatten(0, 1),
            flat_state.t() @ states.flatten(0, 1),
            flat_input.sum(0),
            flat_state.sum(0),
        )


def _gate_grads(
    grad: Tensor, state: Tensor, gates: Tensor, news: Tensor, by_input: Tensor, by_state: Tensor
) -> None:
    """Writes the gradients of one step's gates before their nonlinearities.

    With output = new + update * (state - new) and new = tanh(input part + reset * state part).
    """
    reset, update, new = gates.chunk(3, dim=1)
    reset_grad, update_grad, new_grad = by_input.chunk(3, dim=1)
    torch.addcmul(grad, grad, update, value=-1, out=new_grad)
    new_grad.addcmul_(new_grad * new, new, value=-1)
    torch.sub(state, new, out=update_grad).mul_(grad).mul_(torch.addcmul(update, update, update, value=-1))
    torch.mul(new_grad, news, out=reset_grad).mul_(torch.addcmul(reset, reset, reset, value=-1))
    both = 2 * state.shape[1]
    by_state[:, :both] = by_input[:, :both]
    torch.mul(new_grad, reset, out=by_state[:, both:])

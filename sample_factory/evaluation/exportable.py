"""A network in the form that exporters take: tensors in, tensors out, every operation spelled out.

`export` traces it. Inputs are the observation's arrays in the order of the space, then the state; outputs are
the most likely action, the parameters of the action distribution, the value and the next state. Normalisation
and action masks are inside.

Invariant: it computes what `ActorCritic.act` and the mode of its distribution give.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sample_factory.model.actor_critic import ActorCritic
from sample_factory.model.cores import GruCore, LstmCore, RecurrentCore
from sample_factory.model.observations import ACTION_MASK_KEY

STATE_INPUT = "rnn_state"
OUTPUTS = ("action", "action_params", "value", "next_rnn_state")


class ExportablePolicy(nn.Module):
    """An actor-critic with a flat signature.

    Args:
        model: stays as it is.
        keys: of the observation, in the order of the inputs.
    """

    def __init__(self, model: ActorCritic, keys: Sequence[str]) -> None:
        super().__init__()
        self._keys = tuple(keys)
        self._model = copy.deepcopy(model).eval().requires_grad_(False)
        for module in list(self._model.modules()):
            core = getattr(module, "core", None)
            if isinstance(core, RecurrentCore):
                module.core = SpelledOutCore(core)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Action `[B, A]`, its parameters `[B, K]`, value `[B]` and next state `[B, S]`."""
        obs = dict(zip(self._keys, inputs[:-1], strict=True))
        if ACTION_MASK_KEY in obs:  # runtimes compare floats, not every kind of integer
            obs[ACTION_MASK_KEY] = obs[ACTION_MASK_KEY].float()
        output = self._model.act(obs, inputs[-1])
        distribution = self._model.action_distribution(output.action_params, obs)
        return distribution.mode(), output.action_params, output.values, output.rnn_states


class SpelledOutCore(nn.Module):
    """One step of a recurrent core in elementary operations: exporters do not know torch's cells."""

    def __init__(self, core: RecurrentCore) -> None:
        super().__init__()
        assert isinstance(core, GruCore | LstmCore)
        self._step = _gru_step if isinstance(core, GruCore) else _lstm_step
        self._parts_per_layer = 1 if isinstance(core, GruCore) else 2
        self.rnn = core.rnn
        self.out_size = core.out_size
        self.state_size = core.state_size

    def forward_step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """As `Core.forward_step`."""
        parts = state.split(self.out_size, dim=1)
        states: list[Tensor] = []
        for layer, weights in enumerate(self.rnn.all_weights):
            first = layer * self._parts_per_layer
            new = self._step(x, parts[first : first + self._parts_per_layer], weights)
            states += new
            x = new[0]
        return x, torch.cat(states, dim=1)


def _gru_step(x: Tensor, state: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
    (h,) = state
    w_input, w_hidden, b_input, b_hidden = weights
    reset_x, update_x, new_x = (x @ w_input.T + b_input).chunk(3, dim=1)
    reset_h, update_h, new_h = (h @ w_hidden.T + b_hidden).chunk(3, dim=1)
    reset, update = torch.sigmoid(reset_x + reset_h), torch.sigmoid(update_x + update_h)
    new = torch.tanh(new_x + reset * new_h)
    return [new + update * (h - new)]


def _lstm_step(x: Tensor, state: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
    h, c = state
    w_input, w_hidden, b_input, b_hidden = weights
    gates = x @ w_input.T + b_input + h @ w_hidden.T + b_hidden
    enter, forget, cell, leave = gates.chunk(4, dim=1)
    c = torch.sigmoid(forget) * c + torch.sigmoid(enter) * torch.tanh(cell)
    return [torch.sigmoid(leave) * torch.tanh(c), c]

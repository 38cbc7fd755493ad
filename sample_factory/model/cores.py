"""Cores: the part of the network with memory, between encoder and heads.

A core runs one step at a time when acting and whole trajectories when training; both give the same numbers.
Its state is one row of floats per agent, so that the rest of the program can store it without knowing its
parts: layer after layer, and for an LSTM `[h | c]` within each layer.
Invariant: a core without memory still has a state of size 1, which it passes through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from sample_factory.config.errors import ConfigError
from sample_factory.rl.gru import unroll_gru
from sample_factory.rl.sequences import build_layout, unroll

if TYPE_CHECKING:
    from sample_factory.config.config import Config


class Core(nn.Module):
    """What the actor-critic asks of a core.

    Attributes:
        state_size: length of an agent's state.
        out_size: length of the output.
    """

    state_size: int
    out_size: int

    def forward_step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs `[B, out_size]` and states `[B, state_size]` after one step with inputs `[B, D]`."""
        raise NotImplementedError

    def forward_sequences(self, x: Tensor, state: Tensor, dones: Tensor) -> Tensor:
        """Outputs `[N, T', out_size]` for trajectories `[N, T', D]`.

        Args:
            x: inputs; T' is T, or T + 1 with the observation after the last step.
            state: before the first step, `[N, state_size]`.
            dones: boolean `[N, T]`; the row after a done starts from a zero state.
        """
        raise NotImplementedError


class IdentityCore(Core):
    """No memory."""

    def __init__(self, in_size: int) -> None:
        super().__init__()
        self.state_size = 1
        self.out_size = in_size

    def forward_step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Passes both through."""
        return x, state

    def forward_sequences(self, x: Tensor, state: Tensor, dones: Tensor) -> Tensor:
        """Passes the inputs through."""
        return x


class RecurrentCore(Core):
    """A core around one of torch's recurrent networks, which single steps bypass.

    nn.LSTM takes ten times as long as its arithmetic when a batch has one row, and torch.compile stops at
    either class. So steps go cell by cell, with the same weights.
    """

    cell_weights: list[list[nn.Parameter]]  # for each layer: input, hidden, and their biases

    def __init__(self, rnn: nn.GRU | nn.LSTM) -> None:
        super().__init__()
        self.rnn = rnn
        self.out_size = rnn.hidden_size
        _share_weights_with_cells(self)
        self.register_load_state_dict_post_hook(_share_weights_with_cells)


def _share_weights_with_cells(core: RecurrentCore, *_: object) -> None:
    """Again after loading: `load_state_dict(..., assign=True)` replaces the weights by other objects."""
    core.cell_weights = core.rnn.all_weights


class GruCore(RecurrentCore):
    """Gated recurrent units."""

    def __init__(self, in_size: int, hidden_size: int, num_layers: int) -> None:
        super().__init__(nn.GRU(in_size, hidden_size, num_layers))
        self.state_size = hidden_size * num_layers

    def forward_step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step, layer by layer."""
        states = []
        for h, weights in zip(state.split(self.out_size, dim=1), self.cell_weights, strict=True):
            x = torch.gru_cell(x, h, *weights)
            states.append(x)
        return x, (x if len(states) == 1 else torch.cat(states, dim=1))

    def forward_sequences(self, x: Tensor, state: Tensor, dones: Tensor) -> Tensor:
        """Layer by layer on a CPU, elsewhere all trajectories as one packed sequence."""
        if x.device.type == "cpu":
            for initial, weights in zip(state.split(self.out_size, dim=1), self.cell_weights, strict=True):
                x = unroll_gru(x, initial, dones, weights)
            return x
        initial = state.unflatten(1, (-1, self.out_size)).transpose(0, 1).contiguous()
        return unroll(self.rnn, inputs=x, initial_state=initial, layout=build_layout(dones, x.shape[1]))


class LstmCore(RecurrentCore):
    """Long short-term memory."""

    def __init__(self, in_size: int, hidden_size: int, num_layers: int) -> None:
        super().__init__(nn.LSTM(in_size, hidden_size, num_layers))
        self.state_size = 2 * hidden_size * num_layers

    def forward_step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step, layer by layer."""
        parts = state.split(self.out_size, dim=1)
        states = []
        for layer, weights in enumerate(self.cell_weights):
            x, c = torch.lstm_cell(x, parts[2 * layer : 2 * layer + 2], *weights)
            states += [x, c]
        return x, torch.cat(states, dim=1)

    def forward_sequences(self, x: Tensor, state: Tensor, dones: Tensor) -> Tensor:
        """All trajectories as one packed sequence."""
        by_layer = state.unflatten(1, (-1, 2, self.out_size)).movedim(0, 2)
        initial = (by_layer[:, 0].contiguous(), by_layer[:, 1].contiguous())
        return unroll(self.rnn, inputs=x, initial_state=initial, layout=build_layout(dones, x.shape[1]))


def make_core(cfg: Config, in_size: int) -> Core:
    """The core the settings ask for."""
    if not cfg.use_rnn:
        return IdentityCore(in_size)
    if cfg.rnn_type == "gru":
        return GruCore(in_size, cfg.hidden_size, cfg.rnn_num_layers)
    if cfg.rnn_type == "lstm":
        return LstmCore(in_size, cfg.hidden_size, cfg.rnn_num_layers)
    raise ConfigError(f"--rnn_type={cfg.rnn_type} is unknown: use gru or lstm.")

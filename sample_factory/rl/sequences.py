"""Running a recurrent core over whole trajectories in which episodes end.

Used by the cores in `model` for training. Trajectories `[N, T]` are cut after every done into pieces; the
pieces, longest first, run side by side as one packed sequence, so the recurrent state never crosses the end
of an episode and no step is computed twice. Invariant: results equal a step-by-step loop that zeroes the
state after each done.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from sample_factory.rl.shapes import check_bool, check_shapes

RnnState = Tensor | tuple[Tensor, Tensor]


@dataclass(frozen=True)
class SequenceLayout:
    """Where each step of the trajectories is in the packed sequence.

    Rows are steps numbered trajectory by trajectory, `n * T + t`.
    """

    num_trajectories: int
    num_steps: int
    is_uncut: bool  # every piece is a whole trajectory
    packed_to_row: Tensor  # [N * T]
    row_to_packed: Tensor  # [N * T]
    batch_sizes: Tensor  # [longest piece]: pieces that reach this far; on the CPU, as torch demands
    piece_trajectory: Tensor  # [pieces], longest first: the trajectory a piece was cut from
    piece_is_first: Tensor  # [pieces]: it starts at t = 0 and so inherits the stored state


def build_layout(dones: Tensor, num_steps: int | None = None) -> SequenceLayout:
    """Cuts trajectories after every done.

    Args:
        dones: boolean `[N, T]`, the next row starts a new episode; the last column has no effect.
        num_steps: rows per trajectory, T when not given; T + 1 when there is an observation after the last
            step.
    """
    check_bool(dones=dones)
    n, t = dones.shape
    t = t if num_steps is None else num_steps
    if dones.shape[1] not in (t, t - 1):
        raise ValueError(f"dones has {dones.shape[1]} columns, expected {t} or {t - 1}")

    starts = np.ones((n, t), dtype=bool)
    starts[:, 1:] = dones[:, : t - 1].cpu().numpy()
    first_rows = np.flatnonzero(starts)
    lengths = np.diff(first_rows, append=n * t)
    longest_first = np.argsort(-lengths, kind="stable")
    rank = np.empty_like(longest_first)
    rank[longest_first] = np.arange(len(lengths))

    batch_sizes = len(lengths) - np.cumsum(np.bincount(lengths))[:-1]
    first_packed = np.cumsum(batch_sizes) - batch_sizes
    piece_of_row = np.cumsum(starts.ravel()) - 1
    step_in_piece = np.arange(n * t) - first_rows[piece_of_row]
    row_to_packed = first_packed[step_in_piece] + rank[piece_of_row]
    packed_to_row = np.empty_like(row_to_packed)
    packed_to_row[row_to_packed] = np.arange(n * t)

    trajectory, first_step = np.divmod(first_rows[longest_first], t)
    device = dones.device
    return SequenceLayout(
        num_trajectories=n,
        num_steps=t,
        is_uncut=len(lengths) == n,
        packed_to_row=torch.from_numpy(packed_to_row).to(device),
        row_to_packed=torch.from_numpy(row_to_packed).to(device),
        batch_sizes=torch.from_numpy(batch_sizes),
        piece_trajectory=torch.from_numpy(trajectory).to(device),
        piece_is_first=torch.from_numpy(first_step == 0).to(device),
    )


def pack(inputs: Tensor, layout: SequenceLayout) -> PackedSequence:
    """Steps `[N, T, D]` as a packed sequence of pieces."""
    check_shapes((layout.num_trajectories, layout.num_steps, inputs.shape[-1]), inputs=inputs)
    return PackedSequence(inputs.flatten(0, 1).index_select(0, layout.packed_to_row), layout.batch_sizes)


def unpack(packed: PackedSequence, layout: SequenceLayout) -> Tensor:
    """The inverse of `pack`: steps `[N, T, D]` again."""
    rows = packed.data.index_select(0, layout.row_to_packed)
    return rows.unflatten(0, (layout.num_trajectories, layout.num_steps))


def piece_states(states: Tensor, layout: SequenceLayout) -> Tensor:
    """Initial states `[layers, pieces, H]` from the trajectories' states `[layers, N, H]`; 0 after a done."""
    check_shapes((states.shape[0], layout.num_trajectories, states.shape[2]), states=states)
    chosen = states.index_select(1, layout.piece_trajectory)
    return torch.where(layout.piece_is_first[:, None], chosen, 0.0)


def unroll(rnn: nn.RNNBase, *, inputs: Tensor, initial_state: RnnState, layout: SequenceLayout) -> Tensor:
    """Outputs `[N, T, H]` of a recurrent network over trajectories in which episodes end.

    Args:
        rnn: GRU or LSTM with `batch_first=False`.
        inputs: `[N, T, D]`.
        initial_state: before the first step, `[layers, N, H]`; for an LSTM a pair (h, c) of them.
        layout: from `build_layout` of the same trajectories.
    """
    check_shapes((layout.num_trajectories, layout.num_steps, rnn.input_size), inputs=inputs)
    if layout.is_uncut:
        outputs, _ = rnn(inputs.transpose(0, 1), initial_state)
        return outputs.transpose(0, 1)
    if isinstance(initial_state, tuple):
        h, c = initial_state
        packed, _ = rnn(pack(inputs, layout), (piece_states(h, layout), piece_states(c, layout)))
    else:
        packed, _ = rnn(pack(inputs, layout), piece_states(initial_state, layout))
    return unpack(packed, layout)

"""CPC|A: an auxiliary loss that makes the core predict what the agent will see.

From the core's output at some step, a GRU reads the next k actions; a classifier then tells the encoding of
the observation that really followed from encodings of other observations (Guo et al. 2018, "Neural
predictive belief representations", section 3). Learners add it to the loss when `--use_cpc=True`.
Invariant: no prediction reaches beyond the end of an episode, over an invalid step, or out of the trajectory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn

from sample_factory.config.errors import ConfigError
from sample_factory.rl.action_spaces import action_heads

if TYPE_CHECKING:
    from sample_factory.config.config import Config

ACTION_EMBEDDING_SIZE = 32
NUM_NEGATIVES = 20
LOSS_COEFF = 0.1


class CpcLoss(nn.Module):
    """The auxiliary loss and its own weights.

    Args:
        cfg: all settings; `cpc_*` are used.
        action_space: choices only, no real-valued actions.
        core_out_size: of the network's core.
        encoder_out_size: of the network's encoder.
    """

    def __init__(
        self, cfg: Config, action_space: spaces.Space, core_out_size: int, encoder_out_size: int
    ) -> None:
        super().__init__()
        heads = action_heads(action_space)
        if any(head.kind != "categorical" for head in heads):
            raise ConfigError(
                f"--use_cpc=True needs discrete actions, not {action_space}: use --use_cpc=False with this "
                "environment."
            )
        self.max_horizon: int = cfg.cpc_forward_steps
        self.num_starts: int = cfg.cpc_time_subsample
        self.num_horizons: int = cfg.cpc_forward_subsample
        self.embeddings = nn.ModuleList(nn.Embedding(head.size, ACTION_EMBEDDING_SIZE) for head in heads)
        self.forward_model = nn.GRU(ACTION_EMBEDDING_SIZE * len(heads), core_out_size)
        # The classifier's first layer reads belief and encoding side by side. In two parts it needs to see
        # each encoding once, not once for every belief that it is compared with.
        self.read_belief = nn.Linear(core_out_size, core_out_size)
        self.read_encoding = nn.Linear(encoder_out_size, core_out_size, bias=False)
        self.classify = nn.Sequential(
            nn.ReLU(),
            nn.Linear(core_out_size, core_out_size),
            nn.ReLU(),
            nn.Linear(core_out_size, 1),
        )

    def forward(
        self,
        *,
        core_outputs: Tensor,
        encodings: Tensor,
        actions: Tensor,
        dones: Tensor,
        valids: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The loss, a scalar: 0.1 times the sum of the mean losses on true and on false encodings.

        Args:
            core_outputs: `[N, T', D]`; T' is T, or T + 1 with the observation after the last step.
            encodings: `[N, T', E]`.
            actions: `[N, T, num_actions]`.
            dones: boolean `[N, T]`.
            valids: boolean `[N, T]`.
            generator: for the choice of starts, horizons and negatives; on the CPU.
        """
        num_trajectories, num_rows = encodings.shape[:2]
        num_starts = num_rows - 1  # the last row has nothing after it
        starts = torch.randperm(num_starts, generator=generator)[: self.num_starts]
        max_horizon = min(self.max_horizon, num_starts)
        horizons = torch.randperm(max_horizon, generator=generator)[: self.num_horizons] + 1
        if not len(starts):
            return core_outputs.new_zeros(())

        beliefs = self._beliefs(
            core_outputs[:, starts], actions, starts, horizons
        )  # [N, starts, horizons, D]
        target_rows = starts[:, None] + horizons
        is_known = _is_reachable(dones, valids, starts, target_rows, num_rows)
        target_rows = target_rows.clamp(max=num_rows - 1)
        true_index = torch.arange(num_trajectories)[:, None, None] * num_rows + target_rows
        true_logits, false_logits = self._logits(beliefs, encodings.flatten(0, 1), true_index, generator)

        weights = is_known / is_known.sum().clamp(min=1)
        true_loss = (F.softplus(-true_logits) * weights).sum()
        false_loss = (F.softplus(false_logits).mean(dim=-1) * weights).sum()
        return LOSS_COEFF * (true_loss + false_loss)

    def _beliefs(self, initial: Tensor, actions: Tensor, starts: Tensor, horizons: Tensor) -> Tensor:
        """What the forward model expects `horizons` steps after each start, `[N, starts, horizons, D]`."""
        steps = starts[:, None] + torch.arange(int(horizons.max()))
        # Actions beyond the end are never part of a prediction that counts, but must exist.
        chosen = actions[:, steps.clamp(max=actions.shape[1] - 1)].long()  # [N, starts, K, num_actions]
        embedded = torch.cat([embed(chosen[..., i]) for i, embed in enumerate(self.embeddings)], dim=-1)
        outputs, _ = self.forward_model(
            embedded.flatten(0, 1).transpose(0, 1), initial.flatten(0, 1).unsqueeze(0)
        )
        return outputs[horizons - 1].transpose(0, 1).unflatten(0, initial.shape[:2])

    def _logits(
        self, beliefs: Tensor, encodings: Tensor, true_index: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Logits that an encoding is the true one: of the true ones `[...]`, of others `[..., negatives]`.

        Args:
            beliefs: `[..., D]`.
            encodings: all there are to choose from, `[M, E]`.
            true_index: `[...]`, into `encodings`.
            generator: for the choice of negatives.
        """
        num_rows = len(encodings)
        # A distance of at least one row, so the true encoding is never among the false ones.
        distance = torch.randint(1, num_rows, (*true_index.shape, NUM_NEGATIVES), generator=generator)
        false_index = (true_index.unsqueeze(-1) + distance) % num_rows
        read_beliefs, read_encodings = self.read_belief(beliefs), self.read_encoding(encodings)
        true_logits = self.classify(read_beliefs + read_encodings[true_index]).squeeze(-1)
        false_logits = self.classify(read_beliefs.unsqueeze(-2) + read_encodings[false_index])
        return true_logits, false_logits.squeeze(-1)


def _is_reachable(
    dones: Tensor, valids: Tensor, starts: Tensor, target_rows: Tensor, num_rows: int
) -> Tensor:
    """Whether start, target and all between are valid and of one episode: boolean `[N, starts, horizons]`.

    Args:
        dones: `[N, T]`.
        valids: `[N, T]`.
        starts: `[starts]`.
        target_rows: `[starts, horizons]`; those that are `num_rows` or more are out of reach.
        num_rows: T or T + 1.
    """
    obstacles = F.pad((dones | ~valids).cumsum(dim=1), (1, 0))  # [N, T + 1]: how many before each row
    is_valid_row = F.pad(valids, (0, 1), value=True)
    exists = (target_rows < num_rows).to(dones.device)
    target_rows = target_rows.clamp(max=num_rows - 1)
    is_free = obstacles[:, target_rows] == obstacles[:, starts].unsqueeze(-1)
    return is_free & is_valid_row[:, target_rows] & exists

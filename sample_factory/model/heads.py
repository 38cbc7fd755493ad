"""The last layer of the actor: features in, parameters of the action distribution out.

Columns follow `rl.distributions`: members of the action space in order, logits for a discrete one, means then
logarithms of standard deviations for a Box.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from gymnasium import spaces
from torch import Tensor, nn

from sample_factory.rl.action_spaces import action_heads

if TYPE_CHECKING:
    from sample_factory.config.config import Config


class ActionHead(nn.Module):
    """One Linear layer; with `--adaptive_stddev=False` deviations are a learned vector, not its outputs."""

    is_mean: Tensor
    column_order: Tensor

    def __init__(self, cfg: Config, in_size: int, action_space: spaces.Space) -> None:
        super().__init__()
        kinds: list[str] = []
        for head in action_heads(action_space):
            if head.kind == "gaussian":
                kinds += ["mean"] * head.size + ["log_stddev"] * head.size
            else:
                kinds += ["logit"] * head.size
        learned = [] if cfg.adaptive_stddev else [i for i, kind in enumerate(kinds) if kind == "log_stddev"]
        computed = [i for i in range(len(kinds)) if i not in learned]

        self.linear = nn.Linear(in_size, len(computed))
        self.log_stddev = (
            nn.Parameter(torch.full((len(learned),), math.log(cfg.initial_stddev))) if learned else None
        )
        self.tanh_scale = cfg.continuous_tanh_scale if "mean" in kinds else 0.0
        self._is_in_order = computed + learned == list(range(len(kinds)))
        is_mean = torch.tensor([kind == "mean" for kind in kinds])
        self.register_buffer("is_mean", is_mean, persistent=False)
        self.register_buffer("column_order", torch.tensor(computed + learned).argsort(), persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        """Parameters `[..., K]` for features `[..., in_size]`."""
        return self.complete(self.linear(features))

    def complete(self, params: Tensor) -> Tensor:
        """Parameters `[..., K]` for outputs of the Linear layer."""
        if self.log_stddev is not None:
            params = torch.cat((params, self.log_stddev.expand(*params.shape[:-1], -1)), dim=-1)
            if not self._is_in_order:
                params = params[..., self.column_order]
        if self.tanh_scale > 0.0:
            bounded = torch.tanh(params / self.tanh_scale) * self.tanh_scale
            params = torch.where(self.is_mean, bounded, params)
        return params

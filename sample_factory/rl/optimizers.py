"""Optimisers that torch does not have.

Used by the learner with `--optimizer=lamb`. Invariant: state is named as in `torch.optim.Adam` (`step`,
`exp_avg`, `exp_avg_sq`), so checkpoints and summaries need no special case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import overload

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT


class Lamb(torch.optim.Optimizer):
    """Adam whose step for each parameter tensor is as long as the weights are.

    You et al. 2019, "Large batch optimization for deep learning: training BERT in 76 minutes", algorithm 2,
    with bias correction and the scaling function phi(z) = min(z, max_weight_norm).

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        betas: decay rates of the two moments.
        eps: added to the root of the second moment.
        weight_decay: decoupled weight decay.
        max_weight_norm: upper bound of the norm of the weights as it enters the trust ratio.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        max_weight_norm: float = 10.0,
    ) -> None:
        if lr < 0.0 or eps < 0.0 or not all(0.0 <= beta < 1.0 for beta in betas):
            raise ValueError(f"Lamb needs lr >= 0, eps >= 0 and betas in [0, 1), got {lr}, {eps}, {betas}")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "max_weight_norm": max_weight_norm,
        }
        super().__init__(params, defaults)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Updates all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weights in group["params"]:
                if weights.grad is not None:
                    self._update(weights, group)
        return loss

    def _update(self, weights: Tensor, group: dict) -> None:
        state = self.state[weights]
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(weights)
            state["exp_avg_sq"] = torch.zeros_like(weights)
        state["step"] += 1
        beta1, beta2 = group["betas"]
        first, second = state["exp_avg"], state["exp_avg_sq"]
        first.lerp_(weights.grad, 1.0 - beta1)
        second.mul_(beta2).addcmul_(weights.grad, weights.grad, value=1.0 - beta2)

        root = (second / (1.0 - beta2 ** state["step"])).sqrt_().add_(group["eps"])
        direction = (first / (1.0 - beta1 ** state["step"])).div_(root)
        direction.add_(weights, alpha=group["weight_decay"])

        weight_norm = weights.norm().clamp(max=group["max_weight_norm"])
        direction_norm = direction.norm()
        # On the device, without asking for the numbers: a fresh zero bias must be able to move.
        trust = torch.where((weight_norm > 0) & (direction_norm > 0), weight_norm / direction_norm, 1.0)
        weights.sub_(direction.mul_(trust), alpha=group["lr"])

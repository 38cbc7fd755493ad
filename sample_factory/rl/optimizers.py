"""Optimisers that torch does not have: Lamb, and an Adam for networks so small that calls take the time.

Used by the learner. Invariant: state is named as in `torch.optim.Adam` (`step`, `exp_avg`, `exp_avg_sq`), so
checkpoints and summaries need no special case.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
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


class FlatAdam(torch.optim.Adam):
    """torch's Adam for small float32 parameters on a CPU, as a few calls of numpy.

    All gradients are one array, and so is each moment; `grad`, `exp_avg` and `exp_avg_sq` of a parameter are
    parts of them. Every parameter has a gradient in every step, so one count of steps serves all.

    Invariant: steps and `state_dict` are those of `torch.optim.Adam(fused=True)`, up to rounding.
    """

    def __init__(self, params: Sequence[Tensor], lr: float, betas: tuple[float, float], eps: float) -> None:
        super().__init__(params, lr=lr, betas=betas, eps=eps, fused=True)
        sizes = [parameter.numel() for parameter in params]
        self._places = [slice(end - size, end) for end, size in zip(np.cumsum(sizes), sizes, strict=True)]
        self._weights = [parameter.detach().numpy() for parameter in params]
        self._gradient, self._first, self._second, self._move = np.zeros((4, sum(sizes)), np.float32)
        self._steps = np.zeros(len(sizes), np.float32)
        self._gradients = [torch.from_numpy(part) for part in self._parts(self._gradient)]
        self._moves = self._parts(self._move)
        self.zero_grad()

    def _parts(self, flat: np.ndarray) -> list[np.ndarray]:
        """The numbers of each parameter, in its shape."""
        shaped = zip(self._places, self._weights, strict=True)
        return [flat[place].reshape(weights.shape) for place, weights in shaped]

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Gradients keep their memory, and get it back from whoever has put others in their place."""
        self._gradient.fill(0.0)
        for parameter, gradient in zip(self.param_groups[0]["params"], self._gradients, strict=True):
            parameter.grad = gradient

    def clip_grad_norm(self, limit: float) -> float:
        """As `torch.nn.utils.clip_grad_norm_`: limits the norm of all gradients, returns what it was."""
        norm = math.sqrt(float(np.dot(self._gradient, self._gradient)))
        if limit < norm + 1e-6 < math.inf:
            self._gradient *= np.float32(limit / (norm + 1e-6))
        return norm

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Updates all parameters."""
        if not self.state:
            self._show_state()
        (group,) = self.param_groups
        (beta1, beta2), move = group["betas"], self._move
        self._steps += 1.0
        count = float(self._steps[0])

        np.subtract(self._gradient, self._first, out=move)
        move *= 1.0 - beta1
        self._first += move
        np.multiply(self._gradient, self._gradient, out=move)
        move *= 1.0 - beta2
        self._second *= beta2
        self._second += move

        np.sqrt(self._second, out=move)
        move *= 1.0 / math.sqrt(1.0 - beta2**count)
        move += group["eps"]
        np.divide(self._first, move, out=move)
        move *= group["lr"] / (1.0 - beta1**count)
        for weights, part in zip(self._weights, self._moves, strict=True):
            weights -= part

    # Or torch wraps it into hooks for profilers, which take longer than the step.
    step.hooked = True  # type: ignore[attr-defined]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Copies the state into the arrays."""
        super().load_state_dict(copy.deepcopy(state_dict))  # which may be parts of these very arrays
        loaded = [self.state.get(parameter) for parameter in self.param_groups[0]["params"]]
        for flat in (self._first, self._second, self._steps):
            flat.fill(0.0)
        if not any(loaded):
            return
        first, second = self._parts(self._first), self._parts(self._second)
        for index, state in enumerate(loaded):
            if state:
                first[index][...], second[index][...] = state["exp_avg"], state["exp_avg_sq"]
                self._steps[index] = float(state["step"])
        self._show_state()

    def _show_state(self) -> None:
        """Lets `state` be the arrays' parts; torch has none before the first step."""
        first, second = self._parts(self._first), self._parts(self._second)
        for index, parameter in enumerate(self.param_groups[0]["params"]):
            self.state[parameter] = {
                "step": torch.from_numpy(self._steps[index : index + 1]).squeeze(0),
                "exp_avg": torch.from_numpy(first[index]),
                "exp_avg_sq": torch.from_numpy(second[index]),
            }

"""The optimiser's moments by name, so that they can be published with the weights and taken over.

Invariant: what `take_moments` is given by `moments_of` continues exactly where that optimiser was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

STEPS = "steps"  # of the optimiser, one number for each parameter
_MOMENTS = ("exp_avg", "exp_avg_sq")


def moments_layout(model: nn.Module) -> dict[str, tuple[tuple[int, ...], str]]:
    """Names, shapes and types of the moments of a network's parameters."""
    parameters = dict(model.named_parameters())
    layout: dict[str, tuple[tuple[int, ...], str]] = {STEPS: ((len(parameters),), "float32")}
    for name, parameter in parameters.items():
        for key in _MOMENTS:
            layout[f"{name}/{key}"] = (tuple(parameter.shape), str(parameter.dtype).removeprefix("torch."))
    return layout


def moments_of(optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """The moments of a network's parameters, not copied; empty before the first step."""
    states = {name: optimizer.state.get(parameter) for name, parameter in parameters.items()}
    if not any(states.values()):
        return {}
    named = {STEPS: torch.tensor([float(state["step"]) if state else 0.0 for state in states.values()])}
    for name, state in states.items():
        for key in _MOMENTS:
            named[f"{name}/{key}"] = state[key] if state else torch.zeros_like(parameters[name])
    return named


def take_moments(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter], moments: Mapping[str, Tensor]
) -> None:
    """Gives an optimiser whose first parameters these are the moments of another one for the same network."""
    counts_in_tensors = isinstance(optimizer, torch.optim.Adam)
    saved = optimizer.state_dict()
    for index, (name, step) in enumerate(zip(parameters, moments[STEPS], strict=True)):
        if step > 0:
            state: dict[str, Any] = {key: moments[f"{name}/{key}"].clone() for key in _MOMENTS}
            saved["state"][index] = state | {"step": step.clone() if counts_in_tensors else int(step)}
    # Not `optimizer.state`: the optimiser may keep more than that.
    optimizer.load_state_dict(saved)

"""Small parts that encoders, decoders and heads are made of, and how their weights start.

Everything in this package builds its layers here, so that `--nonlinearity` and `--policy_initialization` mean
the same everywhere; whoever only acts may arrange weights for small batches. Invariant: `initialize_weights`
reaches every Linear and convolution of a network, and leaves recurrent layers, embeddings and free parameters
as their constructors made them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from sample_factory.config.errors import ConfigError

if TYPE_CHECKING:
    from sample_factory.config.config import Config

ACTIVATIONS: dict[str, type[nn.Module]] = {"elu": nn.ELU, "relu": nn.ReLU, "tanh": nn.Tanh}
_INITIALIZATIONS = ("orthogonal", "xavier_uniform", "torch_default")
_WEIGHT_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_LARGE_LAYER = 1 << 19  # weights; with fewer, turning them around costs more than it saves


def nonlinearity(cfg: Config) -> nn.Module:
    """A new activation of the kind `--nonlinearity` names."""
    if cfg.nonlinearity not in ACTIVATIONS:
        raise ConfigError(
            f"--nonlinearity={cfg.nonlinearity} is unknown: use one of {', '.join(ACTIVATIONS)}."
        )
    return ACTIVATIONS[cfg.nonlinearity]()


def initialize_weights(module: nn.Module, cfg: Config) -> None:
    """Gives all Linear and convolution layers of `module` the weights `--policy_initialization` asks for."""
    if cfg.policy_initialization not in _INITIALIZATIONS:
        raise ConfigError(
            f"--policy_initialization={cfg.policy_initialization} is unknown: "
            f"use one of {', '.join(_INITIALIZATIONS)}."
        )
    for layer in module.modules():
        if isinstance(layer, _WEIGHT_LAYERS):
            _initialize_layer(layer, cfg.policy_initialization, cfg.policy_init_gain)


def _initialize_layer(layer: nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d, kind: str, gain: float) -> None:
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    if kind == "orthogonal":
        nn.init.orthogonal_(layer.weight, gain=gain)
    elif kind == "xavier_uniform":
        nn.init.xavier_uniform_(layer.weight, gain=gain)


@torch.no_grad()
def arrange_for_acting(module: nn.Module) -> None:
    """Puts large weights into the order in which a few rows at a time read them, on a CPU; shapes stay.

    With 16 rows all of a dense layer's time is the reading of its weights: a quarter less of it this way.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear) and layer.weight.numel() >= _LARGE_LAYER:
            layer.weight.data = layer.weight.data.T.contiguous().T
        elif isinstance(layer, nn.Conv2d):
            layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)

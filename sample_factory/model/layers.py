"""Small parts that encoders, decoders and heads are made of, and how their weights start.

Everything in this package builds its layers here, so that `--nonlinearity` and `--policy_initialization` mean
the same everywhere. Invariant: `initialize_weights` reaches every Linear and convolution of a network, and
leaves recurrent layers, embeddings and free parameters as their constructors made them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from sample_factory.config.errors import ConfigError

if TYPE_CHECKING:
    from sample_factory.config.config import Config

ACTIVATIONS: dict[str, type[nn.Module]] = {"elu": nn.ELU, "relu": nn.ReLU, "tanh": nn.Tanh}
_INITIALIZATIONS = ("orthogonal", "xavier_uniform", "torch_default")
_WEIGHT_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


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

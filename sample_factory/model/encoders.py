"""Encoders: prepared observations in, one vector per observation out.

`make_encoder` chooses: the class registered under `--encoder_custom`, or the architecture that
`--encoder_type` and `--encoder_subtype` name, once for every key of the observation dictionary. People write
their own by deriving from `EncoderBase` and calling `register_custom_encoder`.
Invariant: an encoder sets `encoder_out_size` in its constructor and returns `[B, encoder_out_size]`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn

from sample_factory.config.errors import ConfigError
from sample_factory.model.convolutions import PIECE_SIZE, Convolutions
from sample_factory.model.layers import nonlinearity
from sample_factory.model.mlp import Mlp
from sample_factory.model.observations import (
    ACTION_MASK_KEY,
    MAIN_KEY,
    holds_numbers,
    image_shape,
    is_image,
    may_stay_bytes,
)

if TYPE_CHECKING:
    from sample_factory.config.config import Config

log = logging.getLogger("sample_factory")


class Conv(NamedTuple):
    """One convolution without padding."""

    channels: int
    kernel: int
    stride: int


CONVNETS: dict[str, tuple[Conv, ...]] = {
    "convnet_simple": (Conv(32, 8, 4), Conv(64, 4, 2), Conv(128, 3, 2)),
    "convnet_impala": (Conv(16, 8, 4), Conv(32, 4, 2)),
    "convnet_atari": (Conv(32, 8, 4), Conv(64, 4, 2), Conv(64, 3, 1)),
    "minigrid_convnet_tiny": (Conv(16, 3, 1), Conv(32, 2, 1), Conv(64, 2, 1)),
}
RESNET_CHANNELS = (16, 32, 32)

_TYPE_OF_SUBTYPE = {
    **dict.fromkeys(CONVNETS, "conv"),
    "resnet_impala": "resnet",
    "mlp_mujoco": "mlp",
    "mlp_quads": "mlp",
}
DEFAULT_SUBTYPE = "convnet_simple"
_FIRST_SUBTYPE = {"conv": DEFAULT_SUBTYPE, "resnet": "resnet_impala", "mlp": "mlp_mujoco"}


class EncoderBase(nn.Module):
    """What all encoders derive from.

    Args:
        cfg: all settings.
        obs_space: the whole observation dictionary.

    Attributes:
        byte_images: keys whose images it takes as bytes that have not been divided by `--obs_scale`.
        works_in_pieces: it cuts large batches itself; others are handed micro-batches.
    """

    encoder_out_size: int

    def __init__(self, cfg: Config, obs_space: spaces.Dict) -> None:
        super().__init__()
        self.cfg = cfg
        self.obs_space = obs_space
        self.byte_images: frozenset[str] = frozenset()
        self.works_in_pieces = False

    def forward(self, obs_dict: dict[str, Tensor]) -> Tensor:
        """Encodes prepared observations `[B, ...]` as `[B, encoder_out_size]`."""
        raise NotImplementedError


EncoderFactory = Callable[["Config", spaces.Dict], EncoderBase]

# The built-in ones are named, not imported: they derive from the classes in this module.
_custom_encoders: dict[str, EncoderFactory | str] = {
    "vizdoom": "sample_factory.model.encoders_custom:VizdoomEncoder",
    "dmlab_instructions": "sample_factory.model.encoders_custom:DmlabInstructionsEncoder",
}


def register_custom_encoder(name: str, encoder_class: EncoderFactory) -> None:
    """Makes `--encoder_custom=<name>` build `encoder_class(cfg, obs_space)`; a later registration wins."""
    _custom_encoders[name] = encoder_class


def custom_encoders() -> dict[str, EncoderFactory | str]:
    """A copy of all registrations, e.g. to repeat them in a worker process."""
    return dict(_custom_encoders)


class ConvEncoder(EncoderBase):
    """Plain convolutions, then fully connected layers, on the image under one key."""

    def __init__(self, cfg: Config, obs_space: spaces.Dict, key: str, architecture: str) -> None:
        super().__init__(cfg, obs_space)
        self._key = key
        channels, height, width = image_shape(cfg, obs_space[key])
        layers: list[nn.Module] = []
        for conv in CONVNETS[architecture]:
            layers += [nn.Conv2d(channels, conv.channels, conv.kernel, conv.stride), nonlinearity(cfg)]
            channels = conv.channels
            height, width = ((size - conv.kernel) // conv.stride + 1 for size in (height, width))
            if min(height, width) < 1:
                raise ConfigError(
                    f"Observation {key!r} of shape {obs_space[key].shape} is too small for "
                    f"--encoder_subtype={architecture}: use --encoder_subtype=minigrid_convnet_tiny."
                )
        self.convolutions = Convolutions(layers, cfg.micro_batch_size or PIECE_SIZE)
        self.fully_connected, self.encoder_out_size = _image_mlp(cfg, channels * height * width)
        self.works_in_pieces = True
        if may_stay_bytes(cfg, obs_space, key):
            self.byte_images = frozenset({key})

    def forward(self, obs_dict: dict[str, Tensor]) -> Tensor:
        """Encodes the images `[B, C, H, W]`."""
        images = obs_dict[self._key]
        is_divided = images.dtype != torch.uint8 or self._key != MAIN_KEY
        return self.fully_connected(self.convolutions(images, 1.0 if is_divided else self.cfg.obs_scale))


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions around which the input passes unchanged."""

    def __init__(self, cfg: Config, channels: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nonlinearity(cfg),
            nn.Conv2d(channels, channels, kernel_size=3, padding=1),
            nonlinearity(cfg),
            nn.Conv2d(channels, channels, kernel_size=3, padding=1),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Same shape out as in."""
        return images + self.residual(images)


class ResnetEncoder(EncoderBase):
    """The residual network of IMPALA (Espeholt et al. 2018, figure 3), on the image under one key."""

    def __init__(self, cfg: Config, obs_space: spaces.Dict, key: str) -> None:
        super().__init__(cfg, obs_space)
        self._key = key
        channels, height, width = image_shape(cfg, obs_space[key])
        layers: list[nn.Module] = []
        for in_channels, out_channels in pairwise((channels, *RESNET_CHANNELS)):
            layers += [
                nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1),
                nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
                ResidualBlock(cfg, out_channels),
                ResidualBlock(cfg, out_channels),
            ]
            height, width = (height + 1) // 2, (width + 1) // 2
        self.convolutions = nn.Sequential(*layers, nonlinearity(cfg))
        self.fully_connected, self.encoder_out_size = _image_mlp(cfg, RESNET_CHANNELS[-1] * height * width)

    def forward(self, obs_dict: dict[str, Tensor]) -> Tensor:
        """Encodes the images `[B, C, H, W]`."""
        return self.fully_connected(self.convolutions(obs_dict[self._key]).flatten(1))


class MlpEncoder(EncoderBase):
    """Fully connected layers on the vector under one key; a choice out of n becomes n zeros and ones."""

    def __init__(self, cfg: Config, obs_space: spaces.Dict, key: str) -> None:
        super().__init__(cfg, obs_space)
        self._key = key
        space = obs_space[key]
        self._choice = (int(space.n), int(space.start)) if isinstance(space, spaces.Discrete) else None
        layer_sizes = cfg.encoder_mlp_layers
        if layer_sizes is None:
            layer_sizes = [cfg.hidden_size] * (2 + cfg.encoder_extra_fc_layers)
        in_size = spaces.flatdim(space)
        self.fully_connected = Mlp(cfg, in_size, layer_sizes)
        self.encoder_out_size = layer_sizes[-1] if layer_sizes else in_size

    def forward(self, obs_dict: dict[str, Tensor]) -> Tensor:
        """Encodes the vectors `[B, ...]`; further axes are flattened."""
        value = obs_dict[self._key]
        if self._choice is not None:
            num_choices, first = self._choice
            value = F.one_hot(value.reshape(len(value)).long() - first, num_choices).float()
        return self.fully_connected(value if value.ndim == 2 else value.flatten(1))


class MultiInputEncoder(EncoderBase):
    """One encoder for each key; their outputs side by side."""

    def __init__(self, cfg: Config, obs_space: spaces.Dict, encoders: Sequence[EncoderBase]) -> None:
        super().__init__(cfg, obs_space)
        self.encoders = nn.ModuleList(encoders)
        self.byte_images = frozenset().union(*(encoder.byte_images for encoder in encoders))
        self.encoder_out_size = sum(encoder.encoder_out_size for encoder in encoders)

    def forward(self, obs_dict: dict[str, Tensor]) -> Tensor:
        """Encodes every key and concatenates."""
        return torch.cat([encoder(obs_dict) for encoder in self.encoders], dim=1)


def make_encoder(cfg: Config, obs_space: spaces.Dict) -> EncoderBase:
    """The encoder the settings ask for.

    Raises:
        ConfigError: an unknown name, or an architecture that cannot read these observations.
    """
    if cfg.encoder_custom is None:
        return make_standard_encoder(cfg, obs_space)
    encoder = _find_custom_encoder(cfg.encoder_custom)(cfg, obs_space)
    if not isinstance(getattr(encoder, "encoder_out_size", None), int):
        raise ConfigError(
            f"--encoder_custom={cfg.encoder_custom}: the constructor of {type(encoder).__name__} must set "
            "self.encoder_out_size, the length of the vectors its forward returns."
        )
    return encoder


def make_standard_encoder(cfg: Config, obs_space: spaces.Dict) -> EncoderBase:
    """The encoder without regard to `--encoder_custom`; custom encoders may build on it."""
    keys = _input_keys(obs_space)
    if len(keys) == 1:
        return _single_key_encoder(cfg, obs_space, keys[0])
    encoders = []
    for key in keys:
        architecture = _architecture(cfg)
        if is_image(obs_space[key]) and _TYPE_OF_SUBTYPE[architecture] == "mlp":
            architecture = _FIRST_SUBTYPE["conv"]
        encoders.append(_key_encoder(cfg, obs_space, key, architecture))
    return MultiInputEncoder(cfg, obs_space, encoders)


def make_main_encoder(cfg: Config, obs_space: spaces.Dict) -> EncoderBase:
    """The standard encoder of the key "obs" alone; for custom encoders that treat the others themselves."""
    return _single_key_encoder(cfg, obs_space, MAIN_KEY)


def _input_keys(obs_space: spaces.Dict) -> list[str]:
    keys = []
    for key, space in obs_space.spaces.items():
        if holds_numbers(obs_space, key) or isinstance(space, spaces.Discrete):
            keys.append(key)
        elif key != ACTION_MASK_KEY:
            log.warning(
                "Observation %r (%s) is not an input of the standard encoder: "
                "make it a float32 Box, or read it in an encoder of your own (--encoder_custom).",
                key,
                space,
            )
    if not keys:
        raise ConfigError(
            f"No observation in {obs_space} can be encoded: use Box or Discrete spaces, or --encoder_custom."
        )
    return keys


def _single_key_encoder(cfg: Config, obs_space: spaces.Dict, key: str) -> EncoderBase:
    architecture = _architecture(cfg)
    shape = obs_space[key].shape
    has_image = is_image(obs_space[key])
    reads_images = _TYPE_OF_SUBTYPE[architecture] != "mlp"
    if has_image and not reads_images:
        raise ConfigError(
            f"--encoder_type=mlp reads vectors, but observation {key!r} is an image of shape {shape}: "
            "use --encoder_type=conv --encoder_subtype=convnet_simple."
        )
    # Nobody who trains on vectors should have to know that images are the default.
    if reads_images and not has_image and _was_typed(cfg, "encoder_type", "encoder_subtype"):
        raise ConfigError(
            f"--encoder_subtype={architecture} reads images, but observation {key!r} has shape {shape}: "
            "use --encoder_type=mlp --encoder_subtype=mlp_mujoco."
        )
    return _key_encoder(cfg, obs_space, key, architecture)


def _key_encoder(cfg: Config, obs_space: spaces.Dict, key: str, architecture: str) -> EncoderBase:
    if not is_image(obs_space[key]):
        return MlpEncoder(cfg, obs_space, key)
    if architecture in CONVNETS:
        return ConvEncoder(cfg, obs_space, key, architecture)
    return ResnetEncoder(cfg, obs_space, key)


def _architecture(cfg: Config) -> str:
    """The architecture that type and subtype agree on; left at its default, the subtype follows the type.

    The values decide, never who set them: a session that resumes must build the same network again.
    """
    kind, subtype = cfg.encoder_type, cfg.encoder_subtype
    if kind not in _FIRST_SUBTYPE:
        raise ConfigError(f"--encoder_type={kind} is unknown: use one of {', '.join(_FIRST_SUBTYPE)}.")
    if subtype not in _TYPE_OF_SUBTYPE:
        known = ", ".join(_TYPE_OF_SUBTYPE)
        raise ConfigError(f"--encoder_subtype={subtype} is unknown: use one of {known}.")
    if _TYPE_OF_SUBTYPE[subtype] == kind:
        return subtype
    if subtype == DEFAULT_SUBTYPE:
        return _FIRST_SUBTYPE[kind]
    if _was_typed(cfg, "encoder_type"):
        raise ConfigError(
            f"--encoder_subtype={subtype} is not of --encoder_type={kind}: "
            f"use --encoder_subtype={_FIRST_SUBTYPE[kind]} or --encoder_type={_TYPE_OF_SUBTYPE[subtype]}."
        )
    return subtype


def _was_typed(cfg: Config, *names: str) -> bool:
    return any(name in (cfg.get("cli_args") or {}) for name in names)


def _find_custom_encoder(name: str) -> EncoderFactory:
    if name not in _custom_encoders:
        raise ConfigError(
            f"--encoder_custom={name} is unknown: register it with register_custom_encoder, "
            f"or use one of {', '.join(sorted(_custom_encoders))}."
        )
    factory = _custom_encoders[name]
    if isinstance(factory, str):
        module_name, _, class_name = factory.partition(":")
        found: EncoderFactory = getattr(import_module(module_name), class_name)
        return found
    return factory


def _image_mlp(cfg: Config, in_size: int) -> tuple[nn.Sequential, int]:
    """Layers after the convolutions, and the length of their output."""
    layer_sizes = cfg.encoder_conv_mlp_layers
    if layer_sizes is None:
        layer_sizes = [cfg.hidden_size] * cfg.encoder_extra_fc_layers
    return Mlp(cfg, in_size, layer_sizes), (layer_sizes[-1] if layer_sizes else in_size)

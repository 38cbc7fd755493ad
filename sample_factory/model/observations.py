"""From raw observations to what encoders read: float32, centred, scaled, normalised, images in one layout.

The actor-critic owns one `ObservationPreparation` and runs it once per pass, for both networks when actor and
critic are separate. Encoders ask `image_shape` and `is_image` instead of looking at spaces themselves.
Invariant: the caller's tensors are never written to.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from sample_factory.config.errors import ConfigError
from sample_factory.rl.image_layout import turned_shape
from sample_factory.rl.normalisation import RunningMeanStd

if TYPE_CHECKING:
    from sample_factory.config.config import Config

MAIN_KEY = "obs"
ACTION_MASK_KEY = "action_mask"
_ARRAYS = (spaces.Box, spaces.MultiBinary)


def is_image(space: spaces.Space) -> bool:
    """Whether a space holds images: three axes."""
    return isinstance(space, spaces.Box) and len(space.shape) == 3


def image_shape(cfg: Config, space: spaces.Space) -> tuple[int, int, int]:
    """Channels, height, width of an image space, whatever `--pixel_format` stores it in."""
    assert space.shape is not None
    first, second, third = space.shape
    return (third, first, second) if cfg.pixel_format == "HWC" else (first, second, third)


def holds_numbers(obs_space: spaces.Dict, key: str) -> bool:
    """Whether an observation measures something, so that it may be scaled and averaged.

    Wide integers beside the main observation are taken for names of things, such as the words of DMLab's
    instructions; bytes and bits are pixels and flags.
    """
    space = obs_space[key]
    if key == ACTION_MASK_KEY or not isinstance(space, _ARRAYS):
        return False
    is_wide_integer = np.issubdtype(space.dtype, np.integer) and np.dtype(space.dtype).itemsize > 1
    return key == MAIN_KEY or is_image(space) or not is_wide_integer


def may_stay_bytes(cfg: Config, obs_space: spaces.Dict, key: str) -> bool:
    """Whether nothing happens to the pixels of these images but a division, which an encoder can do later."""
    is_centred = key == MAIN_KEY and cfg.obs_subtract_mean != 0.0
    is_normalized = key in _normalized_keys(cfg, obs_space)
    return obs_space[key].dtype == np.uint8 and not is_centred and not is_normalized


def _is_turned(cfg: Config, space: spaces.Space) -> bool:
    """Whether these images are stored with their channels last, unlike the environment's."""
    on_cpu = cfg.device == "cpu" or not torch.cuda.is_available()
    wanted = on_cpu and cfg.memory_format == "auto" and cfg.pixel_format == "CHW"
    # The shape tells stored images from the environment's; that of a cube would not.
    return wanted and is_image(space) and space.dtype == np.uint8 and len(set(space.shape or ())) > 1


@dataclass(frozen=True)
class _KeyPreparation:
    """What happens to the observation of one key."""

    is_float: bool  # False: passed on as it is
    is_image: bool
    channels_come_last: bool
    memory_format: str
    mean: float
    scale: float
    stored_shape: tuple[int, ...] | None  # of images that are stored with their channels last

    def __call__(self, value: Tensor) -> Tensor:
        if not self.is_float:
            return value
        if self.is_image:
            value = self.arranged(value)
        prepared = value.to(torch.float32)
        is_ours = value.dtype != torch.float32
        if self.mean != 0.0:
            prepared = prepared.sub_(self.mean) if is_ours else prepared - self.mean
            is_ours = True
        if self.scale != 1.0:
            prepared = prepared.div_(self.scale) if is_ours else prepared / self.scale
        return prepared

    def arranged(self, value: Tensor) -> Tensor:
        """Axes `[B, C, H, W]`; memory as the convolutions like it best."""
        if self.channels_come_last or value.shape[1:] == self.stored_shape:
            value = value.permute(0, 3, 1, 2)
        wants_auto = self.memory_format == "auto" and value.device.type == "cpu"
        if wants_auto or self.memory_format == "channels_last":
            # Before the conversion to float, while a pixel is still one byte: measured a quarter faster.
            return value.contiguous(memory_format=torch.channels_last)
        return value.contiguous()


class ObservationPreparation(nn.Module):
    """Prepares a dictionary of observations `[B, ...]` for encoders."""

    def __init__(
        self, cfg: Config, obs_space: spaces.Dict, byte_images: Collection[str] = frozenset()
    ) -> None:
        """`byte_images` are the keys whose images the encoder takes as bytes."""
        super().__init__()
        keys = [key for key in obs_space.spaces if key != ACTION_MASK_KEY]
        self.turned_images = frozenset(key for key in keys if _is_turned(cfg, obs_space[key]))
        self._byte_images = byte_images
        self._preparations = {key: _preparation_of(cfg, obs_space, key) for key in keys}
        self._normalized_keys = _normalized_keys(cfg, obs_space)
        # Not a ModuleDict: it refuses keys with dots and keys named like its methods.
        self._normalizers = nn.ModuleList(
            RunningMeanStd(_prepared_shape(cfg, obs_space[key])) for key in self._normalized_keys
        )

    @property
    def normalizers(self) -> dict[str, RunningMeanStd]:
        """Normaliser of each normalised key."""
        return dict(zip(self._normalized_keys, self._normalizers, strict=True))  # type: ignore[arg-type]

    def main_mean_and_scale(self) -> tuple[float, float]:
        """What is subtracted from the main observation, and what it is then divided by."""
        preparation = self._preparations[MAIN_KEY]
        return preparation.mean, preparation.scale

    def forward(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Prepared observations; the action mask, which no encoder may read, is left out."""
        prepared = {
            key: prepare.arranged(obs[key]) if key in self._byte_images else prepare(obs[key])
            for key, prepare in self._preparations.items()
        }
        if self._normalized_keys:
            for key, normalizer in zip(self._normalized_keys, self._normalizers, strict=True):
                prepared[key] = normalizer(prepared[key])
        return prepared

    def update_normalizers(self, obs: dict[str, Tensor], valids: Tensor | None) -> None:
        """Takes raw observations into the running statistics.

        Args:
            obs: `[B, ...]` or `[N, T, ...]`.
            valids: boolean `[B]` or `[N, T]`, which of them count; None counts all.
        """
        for key, normalizer in self.normalizers.items():
            values = obs[key]
            num_batch_axes = values.ndim - normalizer.mean.ndim
            values = values.flatten(0, num_batch_axes - 1) if valids is None else values[valids]
            normalizer.update(self._preparations[key](values))


def _preparation_of(cfg: Config, obs_space: spaces.Dict, key: str) -> _KeyPreparation:
    space = obs_space[key]
    is_main = key == MAIN_KEY
    return _KeyPreparation(
        is_float=holds_numbers(obs_space, key) or key in (cfg.normalize_input_keys or ()),
        is_image=is_image(space),
        channels_come_last=cfg.pixel_format == "HWC",
        memory_format=cfg.memory_format,
        mean=cfg.obs_subtract_mean if is_main else 0.0,
        scale=cfg.obs_scale if is_main else 1.0,
        stored_shape=turned_shape(space.shape or ()) if _is_turned(cfg, space) else None,
    )


def _normalized_keys(cfg: Config, obs_space: spaces.Dict) -> tuple[str, ...]:
    if not cfg.normalize_input:
        return ()
    if cfg.normalize_input_keys is None:
        return tuple(key for key in obs_space.spaces if holds_numbers(obs_space, key))
    known = [key for key, space in obs_space.spaces.items() if isinstance(space, _ARRAYS)]
    unknown = [key for key in cfg.normalize_input_keys if key not in known]
    if unknown:
        raise ConfigError(f"--normalize_input_keys names {unknown[0]!r}, use some of: {', '.join(known)}.")
    return tuple(cfg.normalize_input_keys)


def _prepared_shape(cfg: Config, space: spaces.Space) -> tuple[int, ...]:
    if is_image(space):
        return image_shape(cfg, space)
    assert space.shape is not None
    return tuple(space.shape)

"""Wrappers for pictures and stacks of observations.

Families use them to bring a simulator's frames into the shape networks read. Each works on a bare observation
or on one key of a Dict observation, `obs` unless told otherwise, and leaves the other keys alone.
OpenCV is imported when a `Resize` is made.

Invariant: the observation space always describes exactly what `reset` and `step` return.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_factory.envs.registry import MissingPackageError
from sample_factory.envs.wrappers import EnvWrapper, SkipFrames

MAX_CHANNELS = 4  # gray, RGB, RGBA: a picture with more rows than this is no picture in CHW order


class ObservationTransform(EnvWrapper):
    """Base of wrappers that replace one array of the observation by another; see `transform`."""

    def __init__(self, env: gymnasium.Env, key: str = "obs"):
        super().__init__(env)
        space = env.observation_space
        self._key = key if isinstance(space, spaces.Dict) else None
        self.output_space = self.transform_space(_array_space(env, key))
        if isinstance(space, spaces.Dict):
            self.observation_space = spaces.Dict({**space.spaces, key: self.output_space})
        else:
            self.observation_space = self.output_space

    def transform_space(self, space: spaces.Box) -> spaces.Box:
        """The space of what `transform` returns, given the space of what it gets."""
        raise NotImplementedError

    def transform(self, frame: np.ndarray) -> np.ndarray:
        """The array that takes the place of `frame`."""
        raise NotImplementedError

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Resets and transforms the first observation."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._transformed(obs), info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps and transforms the observation."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._transformed(obs), reward, terminated, truncated, info

    def _transformed(self, obs: Any) -> Any:
        if self._key is None:
            return self.transform(obs)
        return {**obs, self._key: self.transform(obs[self._key])}


class Resize(ObservationTransform):
    """Scales HWC pictures to `height` x `width`, then makes them gray if asked.

    Args:
        env: observes `uint8` pictures, height x width [x channels].
        width: of the result.
        height: of the result.
        grayscale: drop colour, and with it the channel dimension.
        add_channel: keep a channel dimension of 1 on gray pictures.
        area: average over pixels instead of taking the nearest one.
        key: which entry of a Dict observation.
    """

    def __init__(  # noqa: PLR0913 -- options of one picture, given by name
        self,
        env: gymnasium.Env,
        width: int,
        height: int,
        *,
        grayscale: bool = False,
        add_channel: bool = False,
        area: bool = False,
        key: str = "obs",
    ):
        self._cv2 = _opencv()
        self._size = (width, height)
        self._grayscale, self._add_channel = grayscale, add_channel
        self._interpolation = self._cv2.INTER_AREA if area else self._cv2.INTER_NEAREST
        super().__init__(env, key)

    def transform_space(self, space: spaces.Box) -> spaces.Box:
        """The space of the scaled pictures."""
        if space.dtype != np.uint8 or len(space.shape) not in (2, 3):
            raise ValueError(f"Resize needs uint8 pictures with 2 or 3 dimensions, not {space}.")
        width, height = self._size
        channels = space.shape[2:]
        if self._grayscale or not channels:
            channels = (1,) if self._add_channel else ()
        return spaces.Box(0, 255, (height, width, *channels), dtype=np.uint8)

    def transform(self, frame: np.ndarray) -> np.ndarray:
        """The scaled picture."""
        if frame.shape[1::-1] != self._size:
            frame = self._cv2.resize(frame, self._size, interpolation=self._interpolation)
        if self._grayscale and frame.ndim == 3 and frame.shape[2] >= 3:
            frame = self._cv2.cvtColor(frame, self._cv2.COLOR_RGB2GRAY)
        # OpenCV drops a channel dimension of 1 by itself.
        return frame.reshape(self.output_space.shape)


class StackFrames(ObservationTransform):
    """Shows the last `frames` observations at once, oldest first; the first one of an episode is repeated.

    Gray pictures [H, W] become [frames, H, W] (CHW) or [H, W, frames] (HWC); vectors [D] become one vector
    [frames * D].
    """

    def __init__(self, env: gymnasium.Env, frames: int, pixel_format: str = "CHW", key: str = "obs"):
        if pixel_format not in ("CHW", "HWC"):
            raise ValueError(f"--pixel_format={pixel_format} is not known; use CHW or HWC.")
        self._frames, self._channels_last = frames, pixel_format == "HWC"
        super().__init__(env, key)
        self._history: np.ndarray | None = None  # [frames, ...]; replaced, never written to, by each step

    def transform_space(self, space: spaces.Box) -> spaces.Box:
        """The space of the stacks."""
        if len(space.shape) not in (1, 2):
            raise ValueError(f"StackFrames stacks vectors and gray pictures without channels, not {space}.")
        return spaces.Box(self._joined(space.low), self._joined(space.high), dtype=space.dtype.type)

    def transform(self, frame: np.ndarray) -> np.ndarray:
        """The stack that ends in `frame`."""
        if self._history is None:
            history = np.repeat(np.asarray(frame)[None], self._frames, axis=0)
        else:
            history = np.empty_like(self._history)
            history[:-1] = self._history[1:]
            history[-1] = frame
        self._history = history
        return self._arranged(history)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Forgets the last episode and fills the stack with the first frame."""
        self._history = None
        return super().reset(seed=seed, options=options)

    def _joined(self, bound: np.ndarray) -> np.ndarray:
        return self._arranged(np.repeat(bound[None], self._frames, axis=0))

    def _arranged(self, history: np.ndarray) -> np.ndarray:
        if history.ndim == 2:
            return history.reshape(-1)
        return np.moveaxis(history, 0, -1) if self._channels_last else history


class SkipAndStack(SkipFrames):
    """Repeats each action for `skip` frames and shows the last `frames` of all frames, also skipped ones."""

    def __init__(self, env: gymnasium.Env, skip: int = 4, frames: int = 4, pixel_format: str = "CHW"):
        super().__init__(StackFrames(env, frames, pixel_format), skip)


class PixelFormatChw(ObservationTransform):
    """Puts the channels of a picture first, as torch wants them."""

    def transform_space(self, space: spaces.Box) -> spaces.Box:
        """The space with the channel dimension in front."""
        if len(space.shape) != 3 or space.shape[0] <= MAX_CHANNELS:
            raise ValueError(
                f"PixelFormatChw needs pictures in HWC order, but {space} looks like CHW already."
            )
        return spaces.Box(space.low.transpose(2, 0, 1), space.high.transpose(2, 0, 1), dtype=space.dtype.type)

    def transform(self, frame: np.ndarray) -> np.ndarray:
        """The picture in CHW order, as a view: whoever stores it copies it anyway."""
        return frame.transpose(2, 0, 1)


class Normalize(ObservationTransform):
    """Maps the bounds of the observation to [-1, 1]."""

    def transform_space(self, space: spaces.Box) -> spaces.Box:
        """The space from -1 to 1."""
        if not (np.all(np.isfinite(space.low)) and np.all(np.isfinite(space.high))):
            raise ValueError(
                f"Normalize needs finite bounds, not {space}; use --normalize_input=True instead."
            )
        low, high = space.low.astype(np.float32), space.high.astype(np.float32)
        self._middle, self._half = (high + low) / 2, (high - low) / 2
        return spaces.Box(-1.0, 1.0, space.shape, dtype=np.float32)

    def transform(self, frame: np.ndarray) -> np.ndarray:
        """The observation in units of half its range."""
        return (frame - self._middle) / self._half


class VerticalCrop(ObservationTransform):
    """Keeps the middle `height` rows of HWC pictures."""

    def __init__(self, env: gymnasium.Env, height: int, key: str = "obs"):
        self._height = height
        super().__init__(env, key)

    def transform_space(self, space: spaces.Box) -> spaces.Box:
        """The space of the remaining rows."""
        if len(space.shape) not in (2, 3) or space.shape[0] < self._height:
            raise ValueError(f"VerticalCrop cannot keep {self._height} rows of {space}.")
        self._top = (space.shape[0] - self._height) // 2
        return spaces.Box(self.transform(space.low), self.transform(space.high), dtype=space.dtype.type)

    def transform(self, frame: np.ndarray) -> np.ndarray:
        """The middle rows."""
        return frame[self._top : self._top + self._height]


def _array_space(env: gymnasium.Env, key: str) -> spaces.Box:
    space = env.observation_space
    found = space.spaces.get(key) if isinstance(space, spaces.Dict) else space
    if not isinstance(found, spaces.Box):
        raise ValueError(f"{env} has no array to transform: it observes {space}.")
    return found


def _opencv() -> Any:
    try:
        import cv2
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            "Resizing frames needs OpenCV, which is not installed: pip install opencv-python-headless",
            name="cv2",
        ) from error
    return cv2

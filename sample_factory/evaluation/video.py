"""Videos of episodes: where a picture comes from, and the file it goes to.

`enjoy_appo` and `showcase` use it. Pictures come from the environment's `render()`, else from an observation
that is a picture. Frames are encoded as they come, so a long video needs no memory.

Invariant: a file under its final name is complete; imageio is imported only when a video is written.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from sample_factory.config.settings_evaluation import VIDEO_FORMATS
from sample_factory.envs.contract import is_multiagent
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.stage import Stage, Transition

MISSING_IMAGEIO = (
    "Videos need the packages imageio and imageio-ffmpeg: pip install 'sample-factory-rebuilt[video]'"
)

_NEEDED = {".mp4": ("imageio", "imageio_ffmpeg"), ".gif": ("imageio",), ".npz": ()}
_DEFAULT_NAME = "replay"
_DEFAULT_FPS = 30.0
_SMALLEST_SIDE = 240  # smaller pictures, such as what a network sees, are enlarged to be worth watching


class VideoError(EvaluationError):
    """No video can be made; the message is one sentence for the user."""


def video_path(directory: Path, name: str | None, video_format: str = "mp4") -> Path:
    """The file a video goes to; a name without extension gets that of the format.

    Raises:
        VideoError: the format is unknown, or the package that writes it is not installed.
    """
    path = directory / (name or _DEFAULT_NAME)
    if path.suffix == "":
        path = path.with_suffix(f".{video_format}")
    if path.suffix.removeprefix(".") not in VIDEO_FORMATS:
        endings = " or ".join(f".{name}" for name in VIDEO_FORMATS)
        raise VideoError(f"--video_name={name} must end in {endings}, for example {_DEFAULT_NAME}.mp4.")
    if any(importlib.util.find_spec(package) is None for package in _NEEDED[path.suffix]):
        raise VideoError(MISSING_IMAGEIO)
    return path


class VideoWriter:
    """An mp4, GIF or npz file, under a temporary name until it is closed; written frame by frame, but npz."""

    def __init__(self, path: Path, fps: float) -> None:
        self.path = path
        self.num_frames = 0
        self._partial = path.with_name(f".{path.stem}.partial{path.suffix}")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._writer: Any
        if path.suffix == ".npz":
            self._writer = _FrameArray(self._partial, fps)
            return
        import imageio.v2

        # macro_block_size=1: imageio would stretch pictures to multiples of 16; `_prepared` makes them even.
        options: dict[str, Any] = (
            {"fps": fps, "macro_block_size": 1}
            if path.suffix == ".mp4"
            else {"duration": 1000 / fps, "loop": 0}
        )
        self._writer = imageio.v2.get_writer(self._partial, mode="I", **options)

    def add(self, picture: np.ndarray) -> None:
        """Appends a frame `[H, W]`, `[H, W, 1]` or `[H, W, 3]` of uint8."""
        self._writer.append_data(_prepared(picture))
        self.num_frames += 1

    def close(self) -> None:
        """Finishes the file; without a single frame there is none."""
        self._writer.close()
        if self.num_frames:
            self._partial.replace(self.path)
        else:
            self._partial.unlink(missing_ok=True)

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _FrameArray:
    """All frames in one array, for those who go on computing with them."""

    def __init__(self, path: Path, fps: float) -> None:
        self._path, self._fps = path, fps
        self._frames: list[np.ndarray] = []

    def append_data(self, picture: np.ndarray) -> None:
        self._frames.append(picture)

    def close(self) -> None:
        if self._frames:
            np.savez_compressed(self._path, frames=np.stack(self._frames), fps=np.array(self._fps))


class FilmWitness:
    """Writes a video file of each of the first episodes on a stage, as agent 0 sees them.

    Args:
        path_of: the file of the n-th episode on this stage, or None for one that nobody wants to see.
        fps: frames per second the video should have; 0 asks the environment.
        env_frameskip: frames per step.
    """

    def __init__(self, path_of: Callable[[int], Path | None], fps: float, env_frameskip: int) -> None:
        self._path_of = path_of
        self._fps, self._env_frameskip = fps, env_frameskip
        self._episode = 0
        self._writer: VideoWriter | None = None

    def begins(self, stage: Stage) -> None:
        """See `Witness`."""
        path = self._path_of(self._episode)
        if path is not None:
            self._writer = VideoWriter(path, frames_per_second(stage.env, self._fps, self._env_frameskip))
            self._look(stage)

    def happens(self, stage: Stage, transitions: Sequence[Transition]) -> None:
        """See `Witness`."""
        self._look(stage)
        if not (transitions[0].terminated or transitions[0].truncated):
            return
        self._episode += 1
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if is_multiagent(stage.env):  # it has begun anew by itself
            self.begins(stage)

    def _look(self, stage: Stage) -> None:
        if self._writer is None:
            return
        picture = capture(stage.env, stage.observations[0])
        if picture is not None:
            self._writer.add(picture)


def require_picture(stage: Stage, env_name: str) -> None:
    """Says before the first step, not after the last, that there is nothing to see.

    Raises:
        VideoError: the environment neither renders nor observes pictures.
    """
    try:
        picture = capture(stage.env, stage.observations[0])
    except gymnasium.error.DependencyNotInstalled as error:
        raise VideoError(f"--env={env_name} cannot be drawn: {error}") from error
    if picture is None:
        raise VideoError(f"--env={env_name} neither renders nor observes pictures; leave out --save_video.")


def capture(env: Any, observation: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """A picture `[H, W, channels]` of what is going on, or None when there is nothing to see."""
    if getattr(env, "render_mode", None) == "rgb_array":
        rendered = env.render()
        pictures = rendered if isinstance(rendered, list | tuple) else [rendered]
        if pictures and isinstance(pictures[0], np.ndarray):
            return pictures[0]
    return picture_in(observation)


def picture_in(observation: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The first picture among the arrays of an observation, or None; of a stack of frames the newest."""
    for array in observation.values():
        if array.dtype != np.uint8 or array.ndim not in (2, 3):
            continue
        if array.ndim == 2:
            return array[:, :, None]
        picture = array.transpose(1, 2, 0) if array.shape[0] < array.shape[2] else array
        # Three channels are colours; any other number is a stack of gray frames, oldest first.
        return picture if picture.shape[2] == 3 else picture[:, :, -1:]
    return None


def frames_per_second(env: Any, wanted_fps: float, env_frameskip: int) -> float:
    """How fast a video with one picture per environment step has to run to look like real time."""
    metadata = getattr(env, "metadata", None) or {}
    per_frame = float(wanted_fps or metadata.get("render_fps") or _DEFAULT_FPS)
    return max(1.0, per_frame / env_frameskip)


def _prepared(picture: np.ndarray) -> np.ndarray:
    if picture.ndim == 2:
        picture = picture[:, :, None]
    factor = math.ceil(_SMALLEST_SIDE / min(picture.shape[:2]))
    if factor > 1:
        picture = picture.repeat(factor, axis=0).repeat(factor, axis=1)
    if picture.shape[2] == 1:
        picture = picture.repeat(3, axis=2)
    # The usual colour format of mp4 halves the resolution of colours, so it wants even sizes.
    odd_rows, odd_columns = picture.shape[0] % 2, picture.shape[1] % 2
    if odd_rows or odd_columns:
        picture = np.pad(picture, ((0, odd_rows), (0, odd_columns), (0, 0)), mode="edge")
    return np.ascontiguousarray(picture)

"""How an episode is watched: in a window, as a video, or not at all; and at which rate frames pass.

`enjoy_appo` makes a `ViewingPlan` from the settings, then a viewer that looks at the stage after each step.

Invariant: the policy decides as often as it did in training, unless the user says otherwise.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sample_factory.config.config import experiment_dir
from sample_factory.envs.registry import family_for
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.stage import Stage
from sample_factory.evaluation.video import (
    VideoWriter,
    capture,
    frames_per_second,
    require_picture,
    video_path,
)
from sample_factory.monitoring.log import logger

if TYPE_CHECKING:
    from sample_factory.config.config import Config


@dataclass(frozen=True)
class ViewingPlan:
    """What to do with each frame.

    Attributes:
        render_mode: as `make_env` takes it; None when nobody looks.
        env_frameskip: frames per environment step.
        action_repeat: environment steps per decision.
    """

    render_mode: str | None
    env_frameskip: int
    action_repeat: int


def viewing_plan(cfg: Config, *, has_display: bool) -> ViewingPlan:
    """Decides how to watch.

    Frame by frame, as v1 does, if somebody looks: each action is repeated as often as training skipped
    frames. The trained frame skip stays where nobody looks, and where observations stack frames, because a
    stack of consecutive frames is nothing the policy has seen.

    Raises:
        EvaluationError: the frame skips do not divide.
    """
    render_mode = _render_mode(cfg, has_display)
    trained = cfg.get("env_frameskip") or 1
    chosen_skip, chosen_repeat = cfg.get("eval_env_frameskip"), cfg.get("render_action_repeat")
    if chosen_skip is not None:
        return ViewingPlan(render_mode, chosen_skip, chosen_repeat or _divided(trained, chosen_skip))
    if chosen_repeat is not None:
        return ViewingPlan(render_mode, 1, chosen_repeat)
    if render_mode is None or _stacks_frames(cfg.env):
        return ViewingPlan(render_mode, trained, 1)
    return ViewingPlan(render_mode, 1, trained)


def display_exists() -> bool:
    """Whether a window can be opened."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _render_mode(cfg: Config, has_display: bool) -> str | None:
    if cfg.get("save_video"):
        return "rgb_array"
    return "human" if has_display and is_watched(cfg) else None


def is_watched(cfg: Config) -> bool:
    """Whether the flags let somebody look."""
    return not cfg.get("no_render") and bool(cfg.get("render", True))


def _divided(trained: int, chosen: int) -> int:
    if trained % chosen:
        raise EvaluationError(
            f"--eval_env_frameskip={chosen} must divide the {trained} frames each action lasted in training, "
            "for example --eval_env_frameskip=1."
        )
    return trained // chosen


def _stacks_frames(env_name: str) -> bool:
    return "env_framestack" in family_for(env_name).defaults_for(env_name)


class Viewer:
    """Looks at a stage after each step; does nothing when nobody watches."""

    def look(self) -> None:
        """A step has been made."""

    @property
    def is_full(self) -> bool:
        """Whether enough has been seen."""
        return False

    def close(self) -> None:
        """Finishes what was being written."""


class WindowViewer(Viewer):
    """Keeps the window of a simulator up to date, at `--fps` frames per second if that is not 0."""

    def __init__(
        self,
        stage: Stage,
        fps: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._env = stage.env
        self._period = 1.0 / fps if fps > 0 else 0.0
        self._clock, self._sleep = clock, sleep
        self._due = clock()

    def look(self) -> None:
        """Draws, then waits until the frame has been seen long enough."""
        # Environments made for `human` draw while they step; drawing again would halve their speed.
        if getattr(self._env, "render_mode", None) != "human":
            self._env.render()
        # From now on if drawing is slower than wanted: a late frame is not followed by a hasty one.
        self._due = max(self._due + self._period, self._clock())
        self._sleep(self._due - self._clock())


class VideoViewer(Viewer):
    """Writes every step to a video file, up to `--video_frames`."""

    def __init__(self, stage: Stage, writer: VideoWriter, max_frames: int) -> None:
        self._stage = stage
        self._writer = writer
        self._max_frames = max_frames
        self._shape: tuple[int, ...] | None = None

    def look(self) -> None:
        """Appends a picture; one of another size, which no video can hold, is left out."""
        picture = capture(self._stage.env, self._stage.observations[0])
        if picture is None or self.is_full or self._shape not in (None, picture.shape):
            return
        self._shape = picture.shape
        self._writer.add(picture)

    @property
    def is_full(self) -> bool:
        """Whether the video has all its frames."""
        return self._writer.num_frames >= self._max_frames

    def close(self) -> None:
        """Finishes the file and says where it is."""
        self._writer.close()
        logger().info("Wrote %d frames to %s", self._writer.num_frames, self._writer.path)


def make_viewer(cfg: Config, plan: ViewingPlan, stage: Stage) -> Viewer:
    """The viewer of a plan, for a stage that has been reset.

    Raises:
        VideoError: a video is wanted of an environment that neither renders nor observes pictures.
    """
    fps = float(cfg.get("fps") or 0)
    if plan.render_mode == "human":
        return WindowViewer(stage, fps)
    if plan.render_mode is None:
        return Viewer()
    path = video_path(experiment_dir(cfg), cfg.get("video_name"), cfg.get("video_format", "mp4"))
    require_picture(stage, cfg.env)
    writer = VideoWriter(path, frames_per_second(stage.env, fps, plan.env_frameskip))
    max_frames = cfg.get("video_frames", 0)
    return VideoViewer(stage, writer, max_frames if max_frames > 0 else sys.maxsize)

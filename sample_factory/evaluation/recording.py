"""What an evaluation writes down of its episodes besides their scores: trajectories and videos.

A `Recording` is made from the settings, travels to evaluation workers, and gives each stage its witness.

Invariant: files are named by the episode's number in the whole evaluation, whichever process plays it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sample_factory.evaluation.stage import Stage, Transition, Witness
from sample_factory.evaluation.trajectories import TrajectoryWitness, require_packages
from sample_factory.evaluation.video import FilmWitness, video_path

if TYPE_CHECKING:
    from sample_factory.config.config import Config
    from sample_factory.evaluation.evaluate import Programme

VIDEOS_DIR = "videos"
TRAJECTORIES_DIR = "trajs"


@dataclass(frozen=True)
class Recording:
    """What to write, and where.

    Attributes:
        videos: folder for videos; None writes none.
        num_videos: of how many episodes.
        video_format: their extension.
        trajectories: folder for trajectories; None writes none.
        trajectory_name: file names are this and the episode's number.
        trajectory_suffix: `.npz` or `.h5`.
        pixels: whether trajectories have pictures.
        fps: of videos; 0 asks the environment.
    """

    videos: Path | None = None
    num_videos: int = 0
    video_format: str = "mp4"
    trajectories: Path | None = None
    trajectory_name: str = ""
    trajectory_suffix: str = ".npz"
    pixels: bool = False
    fps: float = 0.0

    @classmethod
    def make(cls, cfg: Config, directory: Path) -> Recording:
        """As the flags say, in the folder of the evaluation.

        Raises:
            EvaluationError: a package that is needed to write is missing.
        """
        if cfg.get("save_video"):
            video_path(directory, None, cfg.video_format)  # refuses early
        if cfg.get("save_traj"):
            require_packages(cfg.traj_format)
        name = cfg.env.replace("/", "_")
        folder = directory / TRAJECTORIES_DIR
        if cfg.get("save_traj_dir"):
            folder = Path(cfg.save_traj_dir).expanduser() / name / cfg.experiment
        return cls(
            videos=directory / VIDEOS_DIR if cfg.get("save_video") else None,
            num_videos=cfg.get("num_videos", 0),
            video_format=cfg.get("video_format", "mp4"),
            trajectories=folder if cfg.get("save_traj") else None,
            trajectory_name=f"{name}_demo",
            trajectory_suffix=".h5" if cfg.get("traj_format") == "h5" else ".npz",
            pixels=bool(cfg.get("save_traj_pixels")),
            fps=float(cfg.get("fps") or 0),
        )

    @property
    def needs_pictures(self) -> bool:
        """Whether environments have to render."""
        return self.videos is not None or (self.trajectories is not None and self.pixels)

    def witness(
        self, programme: Programme, env_index: int, agents_per_env: int, env_frameskip: int
    ) -> Witness | None:
        """Who writes down what happens in one environment of a programme; None if nobody does."""
        witnesses: list[Witness] = []
        if self.trajectories is not None:
            for agent in range(agents_per_env):
                episodes = programme.episodes_of(env_index, agent, agents_per_env)
                path_of = _by_turn(episodes, self.trajectory_file)
                witnesses.append(TrajectoryWitness(path_of, agent, self.pixels))
        if self.videos is not None:
            shown = [k for k in programme.episodes_of(env_index, 0, agents_per_env) if k < self.num_videos]
            witnesses.append(FilmWitness(_by_turn(shown, self.video_file), self.fps, env_frameskip))
        return Witnesses(witnesses) if witnesses else None

    def trajectory_file(self, episode: int) -> Path:
        """Where an episode's trajectory goes."""
        assert self.trajectories is not None
        return self.trajectories / f"{self.trajectory_name}{episode:03d}{self.trajectory_suffix}"

    def video_file(self, episode: int) -> Path:
        """Where an episode's video goes."""
        assert self.videos is not None
        return self.videos / f"ep{episode}.{self.video_format}"


class Witnesses:
    """Several witnesses as one."""

    def __init__(self, witnesses: Sequence[Witness]) -> None:
        self._witnesses = witnesses

    def begins(self, stage: Stage) -> None:
        """See `Witness`."""
        for witness in self._witnesses:
            witness.begins(stage)

    def happens(self, stage: Stage, transitions: Sequence[Transition]) -> None:
        """See `Witness`."""
        for witness in self._witnesses:
            witness.happens(stage, transitions)


def _by_turn(episodes: Sequence[int], path: Callable[[int], Path]) -> Callable[[int], Path | None]:
    """From the turn of an episode on its stage to its file; None for those beyond the share."""
    return lambda turn: path(episodes[turn]) if turn < len(episodes) else None

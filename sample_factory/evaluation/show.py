"""Shows a trained policy: plays in a window or for a video, and reports the reward of every episode.

`enjoy_appo` is the command for it; scripts with environments of their own call `enjoy(cfg)`; `showcase` makes
its video with it.

Invariant: nothing in the experiment's directory changes, except for a video and trajectories.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

from sample_factory.config.config import Config, experiment_dir
from sample_factory.config.precedence import resolve
from sample_factory.envs.contract import EnvConfig, agents_of
from sample_factory.envs.make import make_env
from sample_factory.envs.vector import EpisodeEnd
from sample_factory.evaluation.evaluate import Programme
from sample_factory.evaluation.player import Player, load_player
from sample_factory.evaluation.recording import Recording
from sample_factory.evaluation.stage import Stage, Witness, env_seed
from sample_factory.evaluation.video import VideoError
from sample_factory.evaluation.viewing import Viewer, display_exists, is_watched, make_viewer, viewing_plan
from sample_factory.monitoring.log import logger

SUCCESS = 0

_AVERAGED_EPISODES = 100
_VIDEO_EPISODES = 3  # a video with no limit typed would never end
_LIMITS = ("max_num_frames", "max_num_episodes", "video_frames")


@dataclass
class Results:
    """Rewards of the latest episodes of each agent."""

    num_agents: int
    episodes: int = 0
    rewards: list[deque[float]] = field(init=False)
    true_rewards: list[deque[float]] = field(init=False)

    def __post_init__(self) -> None:
        self.rewards = [deque(maxlen=_AVERAGED_EPISODES) for _ in range(self.num_agents)]
        self.true_rewards = [deque(maxlen=_AVERAGED_EPISODES) for _ in range(self.num_agents)]

    def add(self, episode: EpisodeEnd) -> None:
        """Takes one episode into the averages."""
        self.episodes += 1
        self.rewards[episode.agent_index].append(episode.reward)
        self.true_rewards[episode.agent_index].append(episode.true_reward)

    @property
    def mean_reward(self) -> float:
        """Mean over agents of their mean reward; NaN before the first episode."""
        return _mean_of_means(self.rewards)

    @property
    def mean_true_reward(self) -> float:
        """The same for the true reward."""
        return _mean_of_means(self.true_rewards)


def enjoy(cfg: Config) -> tuple[int, float]:
    """Shows a trained policy until `--max_num_frames` or `--max_num_episodes`, or until Ctrl+C.

    Returns:
        Exit status 0 and the mean episode reward, NaN if no episode ended.

    Raises:
        ConfigError: the experiment does not exist.
        EvaluationError: it has no usable checkpoint, or cannot be shown the way the flags ask for.
    """
    cfg = resolve(cfg, evaluation=True)
    if display_exists() or not is_watched(cfg) or cfg.get("save_video"):
        return _enjoy(cfg)
    filmed = Config.from_dict(cfg.to_dict() | {"save_video": True})
    try:
        return _enjoy(filmed)
    except (VideoError, gymnasium.error.Error) as error:  # raised before the first step
        logger().info("There is no display, and no video either: %s", error)
        return _enjoy(cfg)


def _enjoy(cfg: Config) -> tuple[int, float]:
    cfg = with_video_limit(cfg)
    plan = viewing_plan(cfg, has_display=display_exists())
    cfg.env_frameskip = plan.env_frameskip
    with ExitStack() as opened:
        env = make_env(cfg.env, cfg, EnvConfig(worker_index=0, vector_index=0, env_id=0), plan.render_mode)
        seed = cfg.eval_seed if cfg.get("eval_seed") is not None else cfg.cli_args.get("seed")
        stage = Stage(env, None if seed is None else env_seed(seed, env_index=0), _witness(cfg, env))
        opened.callback(stage.close)
        player = load_player(cfg, env, seed)
        stage.reset()
        viewer = make_viewer(cfg, plan, stage)
        opened.callback(viewer.close)
        results = Results(stage.num_agents)
        try:
            show(cfg, player, stage, viewer, action_repeat=plan.action_repeat, results=results)
        except KeyboardInterrupt:
            logger().info("Stopped after %d episodes", results.episodes)
    return SUCCESS, results.mean_reward


def show(
    cfg: Config, player: Player, stage: Stage, viewer: Viewer, *, action_repeat: int, results: Results
) -> None:
    """Plays on a stage that has been reset, until a limit is reached."""
    agents = range(stage.num_agents)
    player.begin(stage.num_agents)
    viewer.look()
    while (
        stage.frames < cfg.max_num_frames and results.episodes < cfg.max_num_episodes and not viewer.is_full
    ):
        actions = player.act(stage.observations, agents)
        for episode in stage.step(actions, action_repeat, viewer.look):
            player.forget(episode.agent_index)
            results.add(episode)
            _report(episode, stage, results)


def _witness(cfg: Config, env: Any) -> Witness | None:
    """Who writes trajectories; videos are the viewer's."""
    directory = experiment_dir(cfg) / "eval" / (cfg.get("eval_name") or "shown")
    recording = Recording.make(Config.from_dict(cfg.to_dict() | {"save_video": False}), directory)
    programme = Programme(cfg.max_num_episodes)
    return recording.witness(programme, 0, agents_of(env), cfg.env_frameskip)


def with_video_limit(cfg: Config) -> Config:
    """The settings with an end for videos: one episode for `--video_frames=-1`, a few without a limit."""
    if not cfg.get("save_video"):
        return cfg
    limited = Config.from_dict(cfg.to_dict())
    if cfg.video_frames < 0:
        limited.max_num_episodes = min(1, cfg.max_num_episodes)
    elif not any(name in cfg.cli_args for name in _LIMITS):
        limited.max_num_episodes = _VIDEO_EPISODES
        logger().info("Recording %d episodes; --max_num_episodes records more", _VIDEO_EPISODES)
    return limited


def _report(episode: EpisodeEnd, stage: Stage, results: Results) -> None:
    logger().info(
        "Episode finished for agent %d at %d frames. Reward: %.3f, true_reward: %.3f",
        episode.agent_index,
        stage.frames,
        episode.reward,
        episode.true_reward,
    )
    if all(results.rewards):
        logger().info(
            "Avg episode reward: %.3f, avg true_reward: %.3f", results.mean_reward, results.mean_true_reward
        )


def _mean_of_means(windows: Sequence[deque[float]]) -> float:
    means = [np.mean(window) for window in windows if window]
    return float(np.mean(means)) if means else float("nan")

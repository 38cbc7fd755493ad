"""What a wrapped script has learned: test episodes and films of its policy.

The script's own `env.run(act, episodes=1)` is used if it has one, as cherry's environments do, else a plain
loop. Who acts is the script's `get_action`, else its `agent`, else its `policy`.

Invariant: a script whose result can't be tested is no failure; the reason is told instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from sample_factory.benchmark.wrap.environments import RecordedEnv, recorded_env
from sample_factory.evaluation.video import VideoError, VideoWriter, frames_per_second, video_path

ACTORS = ("get_action", "agent", "policy")
_MAX_STEPS = 100_000  # an episode that never ends must not keep the benchmark
_MAX_FRAMES = 2_000


class UntestableError(Exception):
    """The script left nothing that could be tested; the message says what is missing."""


@dataclass
class Episodes:
    """Returns and lengths of test episodes."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)


class Trial:
    """The policy and environment that a script left behind.

    Args:
        variables: of the script.
        env_id: what to make if the script kept its environment to itself.

    Raises:
        UntestableError: nobody acts.
    """

    def __init__(self, variables: Mapping[str, Any], env_id: str) -> None:
        actor = next((name for name in ACTORS if callable(variables.get(name))), None)
        if actor is None:
            raise UntestableError(f"the script has none of {', '.join(ACTORS)}")
        self.actor = actor
        self._act = variables[actor]
        self._env: Any = variables.get("env")
        if not _is_single_env(self._env):
            self._env = gymnasium.make(env_id)
        self._recorded = recorded_env(self._env)

    def play(self, num_episodes: int, on_episode: Callable[[int, float], None]) -> Episodes:
        """Plays test episodes.

        Args:
            num_episodes: how many.
            on_episode: hears of the number and the return of each.
        """
        episodes = Episodes()
        for number in range(num_episodes):
            total, length = self._play_one()
            episodes.returns.append(total)
            episodes.lengths.append(length)
            on_episode(number, total)
        return episodes

    def film(self, directory: Path, count: int) -> list[Path]:
        """Plays and records episodes as `rollout_<n>.mp4`.

        Raises:
            UntestableError: the environment can't be drawn, or no video can be written here.
        """
        if self._recorded is None:
            raise UntestableError("the environment was not made by gymnasium.make")
        try:
            paths = [video_path(directory, f"rollout_{number}.mp4") for number in range(count)]
        except VideoError as error:
            raise UntestableError(str(error)) from error
        return [self._film_one(self._recorded, path) for path in paths]

    def _film_one(self, recorded: RecordedEnv, path: Path) -> Path:
        with VideoWriter(path, frames_per_second(recorded, 0.0, 1)) as writer:

            def add_frame(env: Any) -> None:
                if writer.num_frames < _MAX_FRAMES:
                    picture = env.render()
                    if not isinstance(picture, np.ndarray):
                        raise UntestableError("the environment draws no rgb_array")
                    writer.add(picture)

            with recorded.filmed(add_frame):
                self._play_one()
        return path

    def _play_one(self) -> tuple[float, int]:
        """Return and length of one episode, as the recorded environment saw it if there is one."""
        finished = self._recorded.finished if self._recorded is not None else []
        before = len(finished)
        if callable(getattr(self._env, "run", None)):
            # A runner may be in the middle of an episode of the training.
            self._env.reset()
            total, length = _of_replay(self._env.run(self._act, episodes=1))
        else:
            total, length = self._loop()
        return finished[before] if len(finished) > before else (total, length)

    def _loop(self) -> tuple[float, int]:
        obs = _observation(self._env.reset())
        total, length = 0.0, 0
        while length < _MAX_STEPS:
            length += 1
            obs, reward, done, *rest = self._env.step(action_for(self._act, obs, self._env))
            total += float(np.asarray(reward).sum())
            # Five values: terminated and truncated instead of done.
            if bool(np.any(done)) or (len(rest) == 2 and bool(np.any(rest[0]))):
                break
        return total, length


def action_for(act: Callable[[Any], Any], obs: Any, env: Any) -> Any:
    """What `env.step` takes, from whatever a script's policy returns for an observation."""
    choice = act(_network_input(act, obs))
    if isinstance(choice, Mapping):
        choice = choice["action"]
    if isinstance(choice, tuple | list) and choice:
        choice = choice[0]
    if callable(getattr(choice, "sample", None)):
        choice = choice.sample()
    if hasattr(choice, "detach"):
        choice = choice.detach().cpu().numpy()
    space = getattr(env, "action_space", None)
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(np.asarray(choice).reshape(-1)[0])
    if isinstance(space, gymnasium.spaces.Box):
        return np.asarray(choice, dtype=space.dtype).reshape(space.shape)
    return choice


def _network_input(act: Callable[[Any], Any], obs: Any) -> Any:
    """Networks take tensors; functions of the script know what their environment returns."""
    if not isinstance(obs, np.ndarray) or not hasattr(act, "state_dict"):
        return obs
    import torch

    return torch.as_tensor(obs, dtype=torch.float32)


def _observation(reset: Any) -> Any:
    is_pair = isinstance(reset, tuple) and len(reset) == 2 and isinstance(reset[1], Mapping)
    return reset[0] if is_pair else reset


def _of_replay(replay: Any) -> tuple[float, int]:
    """Return and length of cherry's replay; NaN if it is something else."""
    reward = getattr(replay, "reward", None)
    if not callable(reward):
        return float("nan"), 0
    rewards = np.asarray(reward(), dtype=np.float64)
    return float(rewards.sum()), int(rewards.size)


def _is_single_env(env: Any) -> bool:
    is_env = callable(getattr(env, "reset", None)) and callable(getattr(env, "step", None))
    return is_env and not isinstance(env, gymnasium.vector.VectorEnv)

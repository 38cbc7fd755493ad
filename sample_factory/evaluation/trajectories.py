"""Trajectories on disk: every transition of an episode, as npz or HDF5 files or as a Minari dataset.

Evaluation attaches a `TrajectoryWitness` to a stage. One file per episode with the arrays `obs0, obs1, acs,
env_rews, dones1, terminated, truncated` and the numbers `ep_lens, ep_env_rets`; parts of dictionary
observations are called `obs0/<key>`, those of tuple actions `acs/<i>`, rendered pictures `obs_render`.

Invariant: a file under its final name holds one whole episode.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.envs.observations import BARE_KEY
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.stage import Observation, Stage, Transition
from sample_factory.evaluation.video import capture
from sample_factory.model.durable_files import write_durably

_PACKAGES = {"h5": ("h5py",), "minari": ("minari", "h5py")}


def require_packages(traj_format: str) -> None:
    """Says at once what is missing, not after the last episode.

    Raises:
        EvaluationError: a package for this format is not installed.
    """
    missing = [name for name in _PACKAGES.get(traj_format, ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise EvaluationError(
            f"--traj_format={traj_format} needs the package {missing[0]}: pip install {' '.join(missing)}, "
            "or use --traj_format=npz."
        )


class TrajectoryWitness:
    """Writes one agent's episodes to files.

    Args:
        path_of: the file of the n-th episode on this stage, or None for one that nobody wants.
        agent: whose steps to write down.
        pixels: also render every step.
    """

    def __init__(self, path_of: Callable[[int], Path | None], agent: int = 0, pixels: bool = False) -> None:
        self._path_of = path_of
        self._agent = agent
        self._pixels = pixels
        self._episode = 0
        self._steps: list[Transition] = []
        self._pictures: list[np.ndarray] = []

    def begins(self, stage: Stage) -> None:
        """See `Witness`."""
        self._look(stage)

    def happens(self, stage: Stage, transitions: Sequence[Transition]) -> None:
        """See `Witness`."""
        step = transitions[self._agent]
        self._steps.append(step)
        if step.terminated or step.truncated:
            self._finish()
        else:
            self._look(stage)

    def _look(self, stage: Stage) -> None:
        if not self._pixels:
            return
        picture = capture(stage.env, stage.observations[self._agent])
        if picture is None:
            raise EvaluationError("--save_traj_pixels needs an environment that renders; leave it out.")
        self._pictures.append(picture)

    def _finish(self) -> None:
        path = self._path_of(self._episode)
        if path is not None:
            arrays = episode_arrays(self._steps)
            if self._pixels:
                arrays["obs_render"] = np.stack(self._pictures[: len(self._steps)])
            write_episode(path, arrays)
        self._episode += 1
        self._steps, self._pictures = [], []


def episode_arrays(steps: Sequence[Transition]) -> dict[str, np.ndarray]:
    """The arrays of one episode, first axis time."""
    terminated = np.array([step.terminated for step in steps], bool)
    truncated = np.array([step.truncated for step in steps], bool)
    rewards = np.array([step.reward for step in steps], np.float32)
    return {
        **_observation_arrays("obs0", [step.observation for step in steps]),
        **_observation_arrays("obs1", [step.next_observation for step in steps]),
        **_action_arrays([step.action for step in steps]),
        "env_rews": rewards,
        "dones1": terminated | truncated,
        "terminated": terminated,
        "truncated": truncated,
        "ep_lens": np.array(len(steps), np.int64),
        "ep_env_rets": np.array(rewards.sum(dtype=np.float64)),
    }


def _observation_arrays(name: str, observations: Sequence[Observation]) -> dict[str, np.ndarray]:
    is_bare = list(observations[0]) == [BARE_KEY]
    return {
        name if is_bare else f"{name}/{key}": np.stack([observation[key] for observation in observations])
        for key in observations[0]
    }


def _action_arrays(actions: Sequence[Any]) -> dict[str, np.ndarray]:
    if isinstance(actions[0], tuple):
        return {f"acs/{i}": np.stack(column) for i, column in enumerate(zip(*actions, strict=True))}
    return {"acs": np.stack([np.asarray(action) for action in actions])}


def write_episode(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes the arrays of an episode to `.npz` or `.h5`, as the name says."""
    buffer = io.BytesIO()
    if path.suffix == ".h5":
        import h5py

        with h5py.File(buffer, "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array)
    else:
        np.savez_compressed(buffer, allow_pickle=False, **dict(arrays))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, buffer.getvalue())


def read_episode(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an episode in an npz file."""
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def write_minari(dataset_id: str, files: Sequence[Path], env: Any) -> str:
    """Puts episodes from npz files into a Minari dataset; its id.

    Args:
        dataset_id: such as `cartpole/my_experiment-v0`.
        files: one npz file per episode, in order.
        env: to take the spaces from.

    Raises:
        EvaluationError: there is a dataset of this name.
    """
    import minari
    from minari.data_collector import EpisodeBuffer

    if dataset_id in minari.list_local_datasets():
        raise EvaluationError(f"The Minari dataset {dataset_id} exists; choose another --eval_name.")
    buffers = []
    for number, path in enumerate(files):
        arrays = read_episode(path)
        buffers.append(
            EpisodeBuffer(
                id=number,
                observations=_with_last(_nested(arrays, "obs0"), _nested(arrays, "obs1")),
                actions=_nested(arrays, "acs"),
                rewards=list(arrays["env_rews"]),
                terminations=list(arrays["terminated"]),
                truncations=list(arrays["truncated"]),
            )
        )
    minari.create_dataset_from_buffers(
        dataset_id=dataset_id,
        buffer=buffers,
        observation_space=env.observation_space,
        action_space=env.action_space,
    )
    return dataset_id


def _nested(arrays: Mapping[str, np.ndarray], name: str) -> Any:
    """One array, a dictionary of them, or a tuple if the parts are numbered."""
    if name in arrays:
        return arrays[name]
    parts = {
        key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")
    }
    return tuple(parts.values()) if all(key.isdigit() for key in parts) else parts


def _with_last(observations: Any, following: Any) -> Any:
    """Observations from the first to the one after the last step."""
    if isinstance(observations, dict):
        return {key: _with_last(array, following[key]) for key, array in observations.items()}
    return np.concatenate([observations, following[-1:]])

"""Everything that touches the `deepmind_lab` module: finding it, starting an instance, explaining its errors.

Used by the environment alone. The module is built from source and is absent from most machines, so it is
imported when the first environment is made, never earlier.

Invariant: an instance is created in the process that steps it; the module does not survive a fork.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sample_factory.envs.dmlab.level_cache import CacheCallbacks
from sample_factory.envs.dmlab.levels import known_level
from sample_factory.envs.registry import MissingPackageError

RGB = "RGB_INTERLEAVED"
INSTRUCTION = "INSTR"

_log = logging.getLogger(__name__)

_HOW_TO_BUILD = (
    "DeepMind Lab environments need the Python module deepmind_lab, which is not on PyPI: "
    "build it with Bazel (git clone https://github.com/google-deepmind/lab && cd lab && "
    "bazel build -c opt --python_version=PY3 //python/pip_package:build_pip_package && "
    "./bazel-bin/python/pip_package/build_pip_package dist && pip install dist/*.whl)."
)


@dataclass(frozen=True)
class LabOptions:
    """How an instance of the simulator is started.

    Args:
        level_path: such as `contributed/dmlab30/rooms_watermaze`.
        width: of the image.
        height: of the image.
        renderer: `software` or `hardware`.
        gpu_index: which GPU the hardware renderer uses.
        dataset_path: folder of the images some levels show.
        with_instructions: whether to observe what the level says.
        extra: further options of the level; keys and values are text.
    """

    level_path: str
    width: int = 96
    height: int = 72
    renderer: str = "software"
    gpu_index: int = 0
    dataset_path: str = ""
    with_instructions: bool = True
    extra: Mapping[str, str] = field(default_factory=dict)

    def config(self) -> dict[str, str]:
        """The simulator's own options, all of them text."""
        return {
            "width": str(self.width),
            "height": str(self.height),
            "gpuDeviceIndex": str(self.gpu_index),
            "datasetPath": self.dataset_path,
            **self.extra,
        }

    def observations(self) -> list[str]:
        """What the simulator is asked to observe."""
        return [RGB, INSTRUCTION] if self.with_instructions else [RGB]

    def lacks_dataset(self) -> bool:
        """Whether the level shows images that are not there."""
        level = known_level(self.level_path)
        return level is not None and level.needs_dataset and not Path(self.dataset_path).is_dir()


def require_deepmind_lab() -> Any:
    """Imports the simulator.

    Raises:
        MissingPackageError: it is not installed; the message says how to build it.
    """
    try:
        return importlib.import_module("deepmind_lab")
    except ModuleNotFoundError as error:
        if error.name != "deepmind_lab":
            raise
        raise MissingPackageError(_HOW_TO_BUILD, name="deepmind_lab") from error


def start_lab(options: LabOptions, callbacks: CacheCallbacks | None) -> Any:
    """Starts an instance; it compiles its level when it is first reset."""
    if options.lacks_dataset():
        _log.warning("%s", _dataset_sentence(options))
    arguments: dict[str, Any] = {"config": options.config(), "renderer": options.renderer}
    if callbacks is not None:
        arguments["level_cache"] = callbacks
    try:
        return require_deepmind_lab().Lab(options.level_path, options.observations(), **arguments)
    except (ValueError, RuntimeError) as error:
        raise type(error)(_explained(options, str(error))) from error


def reset_lab(lab: Any, options: LabOptions, seed: int) -> None:
    """Starts an episode of the layout that belongs to a seed."""
    try:
        lab.reset(seed=seed)
    except RuntimeError as error:
        raise RuntimeError(_explained(options, str(error))) from error


def _explained(options: LabOptions, problem: str) -> str:
    """The simulator's complaint, with the flag that most likely puts it right."""
    if options.lacks_dataset():
        remedy = _dataset_sentence(options)
    elif options.with_instructions and INSTRUCTION in problem:
        remedy = "If the level gives no instructions, use --dmlab_with_instructions=False."
    elif options.renderer == "hardware":
        remedy = (
            "If the hardware renderer cannot start, use --dmlab_renderer=software, choose a GPU with "
            "--dmlab_gpus, or keep to one instance per process with --num_envs_per_worker=1 "
            "--worker_num_splits=1."
        )
    else:
        remedy = "The name of a level is what follows dmlab_ in --env."
    return f"DeepMind Lab cannot start level {options.level_path}: {problem.rstrip('.')}. {remedy}"


def _dataset_sentence(options: LabOptions) -> str:
    return (
        f"Level {options.level_path} shows images of the data set brady_konkle_oliva2008, but "
        f"--dmlab30_dataset={options.dataset_path} is not a folder; download the data set there."
    )

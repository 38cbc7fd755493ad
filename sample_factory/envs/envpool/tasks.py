"""What EnvPool's task ids mean to us: which options they take, how many frames a step is, which defaults fit.

Used by the EnvPool family and its adapter. EnvPool's registry knows where a task comes from.
Invariant: only Atari and VizDoom tasks skip frames that count; MuJoCo's inner steps are one frame.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from sample_factory.envs.json_kwargs import json_kwargs
from sample_factory.envs.registry import UnknownEnvError

if TYPE_CHECKING:
    from sample_factory.config.config import Config

PREFIX = "envpool_"

ATARI = "envpool.atari"
VIZDOOM = "envpool.vizdoom"
CRASHES = ("Cig-v1",)  # a multiplayer scenario: EnvPool 1.2 ends the process with a segmentation fault
PICTURES = (ATARI, VIZDOOM, "envpool.procgen")


def task_source(env_name: str) -> str:
    """The part of EnvPool a task comes from, e.g. `envpool.atari` for `envpool_Pong-v5`.

    Raises:
        UnknownEnvError: EnvPool has no such task.
    """
    from envpool.registration import registry

    task_id = env_name.removeprefix(PREFIX)
    if task_id in registry.specs:
        return str(registry.specs[task_id][0])
    nearest = difflib.get_close_matches(task_id, registry.specs, n=1, cutoff=0.0)[0]
    raise UnknownEnvError(f"--env={env_name} is not a task of EnvPool, try --env={PREFIX}{nearest}.")


def task_options(env_name: str, cfg: Config) -> dict[str, Any]:
    """EnvPool's keyword arguments for one task; `--envpool_kwargs` wins over everything."""
    source = task_source(env_name)
    if env_name.removeprefix(PREFIX) in CRASHES:
        raise UnknownEnvError(
            f"--env={env_name} crashes in EnvPool, try --env=doom_dm, which plays the same map."
        )
    options: dict[str, Any] = {}
    if source in (ATARI, VIZDOOM):
        options["frame_skip"] = cfg.env_frameskip or 4
        options["stack_num"] = cfg.env_framestack
    if source == ATARI:
        options["episodic_life"] = True
    if source == VIZDOOM:
        # Without it the action space is a Box with the number of buttons, of which only 0 and 1 make sense.
        options["use_combined_action"] = True
    return options | json_kwargs("envpool_kwargs", cfg.envpool_kwargs)


def frames_per_step(env_name: str, options: dict[str, Any]) -> int:
    """Simulator frames that one step of a task takes."""
    return int(options.get("frame_skip", 1)) if task_source(env_name) in (ATARI, VIZDOOM) else 1

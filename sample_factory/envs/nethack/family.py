"""The NetHack family: `nethack_<task>`.

The registry reads `FAMILY`. The package nle pins an older gymnasium, so it lives in an environment of its own
and is no part of the extra `all`.
Invariant: nle is imported when an environment is made, not before.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from sample_factory.envs.isolated import require_isolated_package
from sample_factory.envs.registry import EnvFamily, UnknownEnvError

if TYPE_CHECKING:
    from sample_factory.config.config import Config
    from sample_factory.envs.contract import EnvConfig

PREFIX = "nethack_"
INSTALL = "pip install nle"

TASKS: dict[str, str] = {
    "score": "NetHackScore-v0",
    "staircase": "NetHackStaircase-v0",
    "pet": "NetHackStaircasePet-v0",
    "oracle": "NetHackOracle-v0",
    "gold": "NetHackGold-v0",
    "eat": "NetHackEat-v0",
    "scout": "NetHackScout-v0",
    "challenge": "NetHackChallenge-v0",
}

DEFAULTS: dict[str, Any] = {
    "encoder_type": "resnet",
    "encoder_subtype": "resnet_impala",
    "hidden_size": 512,
    "obs_scale": 128.0,
    "env_frameskip": 1,
}


def make_nethack_env(
    name: str, cfg: Config, env_config: EnvConfig | None = None, render_mode: str | None = None
) -> Any:
    """One NetHack task."""
    task = name.removeprefix(PREFIX).lower()
    if task not in TASKS:
        nearest = difflib.get_close_matches(task, TASKS, n=1, cutoff=0.0)[0]
        raise UnknownEnvError(f"--env={name} is not a NetHack task, try --env={PREFIX}{nearest}.")
    require_isolated_package(name, "nle", INSTALL)
    from sample_factory.envs.nethack.env import NetHackEnv

    return NetHackEnv(TASKS[task], render_mode)


FAMILY = EnvFamily(prefix=PREFIX, make_env=make_nethack_env, defaults=DEFAULTS)

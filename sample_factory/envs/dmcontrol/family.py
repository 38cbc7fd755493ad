"""The dm_control family: `dmcontrol_<domain>_<task>`, such as `dmcontrol_cheetah_run`.

The registry reads `FAMILY`. The package dm-control works with MuJoCo 3 only, so it lives in an environment of
its own and is no part of the extra `all`.
Invariant: dm_control is imported when an environment is made, not before.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from sample_factory.envs.isolated import require_isolated_package
from sample_factory.envs.mujoco.family import DEFAULTS
from sample_factory.envs.registry import EnvFamily, UnknownEnvError

if TYPE_CHECKING:
    from sample_factory.config.config import Config
    from sample_factory.envs.contract import EnvConfig

PREFIX = "dmcontrol_"
INSTALL = "pip install dm-control mujoco==3.17.0 packaging"


def make_dmcontrol_env(
    name: str, cfg: Config, env_config: EnvConfig | None = None, render_mode: str | None = None
) -> Any:
    """One task of the suite."""
    require_isolated_package(name, "dm_control", INSTALL)
    from sample_factory.envs.dmcontrol.env import ControlSuiteEnv, suite_tasks
    from sample_factory.envs.wrappers import SkipFrames

    tasks = {f"{domain}_{task}": (domain, task) for domain, task in suite_tasks()}
    wanted = name.removeprefix(PREFIX)
    if wanted not in tasks:
        nearest = difflib.get_close_matches(wanted, tasks, n=1, cutoff=0.0)[0]
        raise UnknownEnvError(f"--env={name} is not a task of dm_control, try --env={PREFIX}{nearest}.")
    env = ControlSuiteEnv(*tasks[wanted], render_mode)
    frameskip = cfg.env_frameskip or 1
    return SkipFrames(env, frameskip) if frameskip > 1 else env


FAMILY = EnvFamily(prefix=PREFIX, make_env=make_dmcontrol_env, defaults=DEFAULTS)

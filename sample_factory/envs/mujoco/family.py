"""The MuJoCo family: `mujoco_<task>`, or `mujoco_<gymnasium id>` for any other MuJoCo task of gymnasium.

The registry reads `FAMILY`. Defaults are those of v1's recipes.
Invariant: the simulator is imported when an environment is made, not before.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from sample_factory.envs.registry import EnvFamily, UnknownEnvError

if TYPE_CHECKING:
    from sample_factory.config.config import Config
    from sample_factory.envs.contract import EnvConfig

PREFIX = "mujoco_"

TASKS: dict[str, str] = {
    "hopper": "Hopper-v5",
    "halfcheetah": "HalfCheetah-v5",
    "humanoid": "Humanoid-v5",
    "ant": "Ant-v5",
    "standup": "HumanoidStandup-v5",
    "doublependulum": "InvertedDoublePendulum-v5",
    "pendulum": "InvertedPendulum-v5",
    "reacher": "Reacher-v5",
    "walker": "Walker2d-v5",
    "pusher": "Pusher-v5",
    "swimmer": "Swimmer-v5",
}

DEFAULTS: dict[str, Any] = {
    "encoder_type": "mlp",
    "encoder_subtype": "mlp_mujoco",
    "hidden_size": 64,
    "encoder_extra_fc_layers": 0,
    "env_frameskip": 1,
    "nonlinearity": "tanh",
}


def task_id(env_name: str) -> str:
    """The gymnasium id an environment name means, e.g. `Walker2d-v5` for `mujoco_walker`.

    Raises:
        UnknownEnvError: no task has this name.
    """
    task = env_name.removeprefix(PREFIX)
    if task.lower() in TASKS:
        return TASKS[task.lower()]
    if re.search(r"-v\d+$", task):
        return task
    nearest = difflib.get_close_matches(task.lower(), TASKS, n=1, cutoff=0.0)[0]
    raise UnknownEnvError(f"--env={env_name} is not a MuJoCo task, try --env={PREFIX}{nearest}.")


def make_mujoco_env(
    name: str, cfg: Config, env_config: EnvConfig | None = None, render_mode: str | None = None
) -> Any:
    """One MuJoCo task with bounded actions."""
    import gymnasium

    from sample_factory.envs.mujoco.env import make_task

    try:
        return make_task(task_id(name), cfg.env_frameskip or 1, render_mode)
    except gymnasium.error.UnregisteredEnv as error:
        raise UnknownEnvError(f"--env={name} is not a task of gymnasium, try --env={PREFIX}ant.") from error
    except ImportError as error:  # gymnasium keeps ids of versions it no longer has
        raise UnknownEnvError(f"--env={name} does not work ({error}), try --env={PREFIX}ant.") from error


FAMILY = EnvFamily(
    prefix=PREFIX, make_env=make_mujoco_env, defaults=DEFAULTS, extra="mujoco", package="mujoco"
)

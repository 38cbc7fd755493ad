"""The EnvPool family: `envpool_<task id>`, such as `envpool_Pong-v5` or `envpool_CartPole-v1`.

The registry reads `FAMILY`. One pool steps all environments of a split in one call.
Invariant: EnvPool is imported when an environment's defaults are asked for or one is made, not before.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from sample_factory.config.setting import Setting
from sample_factory.envs.atari.family import DEFAULTS as ATARI_DEFAULTS
from sample_factory.envs.envpool.tasks import (
    PICTURES,
    PREFIX,
    VIZDOOM,
    frames_per_step,
    task_options,
    task_source,
)
from sample_factory.envs.mujoco.family import DEFAULTS as VECTOR_DEFAULTS
from sample_factory.envs.registry import EnvFamily

if TYPE_CHECKING:
    from sample_factory.config.config import Config
    from sample_factory.envs.batched import BatchedEnv
    from sample_factory.envs.contract import EnvConfig

SETTINGS = (
    Setting(
        "envpool_threads", int, 1, "Threads that step the environments of one split of one worker.", minimum=1
    ),
    Setting(
        "envpool_kwargs",
        str,
        "",
        "Further options of the task for EnvPool, as JSON such as '{\"episodic_life\": false}'.",
    ),
)


def defaults_for(env_name: str) -> dict[str, Any]:
    """Those of the Atari family for pictures, those of the MuJoCo family for vectors."""
    if importlib.util.find_spec("envpool") is None:
        return {}
    return ATARI_DEFAULTS if task_source(env_name) in PICTURES else VECTOR_DEFAULTS


def make_envpool_batch(name: str, cfg: Config, num_envs: int, render_mode: str | None = None) -> BatchedEnv:
    """`num_envs` copies of one task in one pool."""
    kwargs = task_options(name, cfg)
    from sample_factory.envs.envpool.env import EnvPoolBatchedEnv, PoolOptions

    options = PoolOptions(
        task_id=name.removeprefix(PREFIX),
        num_envs=num_envs,
        num_threads=min(cfg.envpool_threads, num_envs),
        frames_per_step=frames_per_step(name, kwargs),
        kwargs=kwargs,
        render_mode=render_mode,
        litters=task_source(name) == VIZDOOM,
    )
    return EnvPoolBatchedEnv(options)


def make_envpool_env(
    name: str, cfg: Config, env_config: EnvConfig | None = None, render_mode: str | None = None
) -> Any:
    """One task as an ordinary environment, for reading spaces and for evaluation."""
    from sample_factory.envs.batched import FirstOfBatch

    return FirstOfBatch(make_envpool_batch(name, cfg, 1, render_mode), render_mode)


FAMILY = EnvFamily(
    prefix=PREFIX,
    make_env=make_envpool_env,
    settings=SETTINGS,
    defaults=defaults_for,
    extra="envpool",
    package="envpool",
    make_vector_env=make_envpool_batch,
)

"""The Procgen family: `procgen_<game>`.

The registry reads `FAMILY`. The package procgen-mirror asks for an older numpy, so it lives in an environment
of its own and is no part of the extra `all`.
Invariant: procgen is imported when an environment is made, not before.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from sample_factory.config.setting import Setting
from sample_factory.envs.isolated import require_isolated_package
from sample_factory.envs.registry import EnvFamily, UnknownEnvError

if TYPE_CHECKING:
    from sample_factory.config.config import Config
    from sample_factory.envs.batched import BatchedEnv
    from sample_factory.envs.contract import EnvConfig
    from sample_factory.envs.procgen.env import ProcgenOptions

PREFIX = "procgen_"
INSTALL = "pip install procgen-mirror && pip install 'numpy>=2'"

GAMES: tuple[str, ...] = (
    "bigfish",
    "bossfight",
    "caveflyer",
    "chaser",
    "climber",
    "coinrun",
    "dodgeball",
    "fruitbot",
    "heist",
    "jumper",
    "leaper",
    "maze",
    "miner",
    "ninja",
    "plunder",
    "starpilot",
)

SETTINGS = (
    Setting("procgen_num_levels", int, 0, "Levels to train on; 0 means all.", minimum=0),
    Setting("procgen_start_level", int, 0, "The first of the levels to train on.", minimum=0),
    Setting(
        "procgen_distribution_mode",
        str,
        "hard",
        "How hard levels are.",
        choices=("easy", "hard", "extreme", "memory", "exploration"),
    ),
)

DEFAULTS: dict[str, Any] = {
    "encoder_type": "resnet",
    "encoder_subtype": "resnet_impala",
    "hidden_size": 256,
    "obs_scale": 255.0,
    "env_frameskip": 1,
}


def make_procgen_env(
    name: str, cfg: Config, env_config: EnvConfig | None = None, render_mode: str | None = None
) -> Any:
    """One Procgen game."""
    options = _options(name, cfg, render_mode)
    from sample_factory.envs.procgen.env import ProcgenEnv

    return ProcgenEnv(options)


def make_procgen_batch(name: str, cfg: Config, num_envs: int) -> BatchedEnv:
    """`num_envs` copies of one game stepped in one call."""
    options = _options(name, cfg, None)
    from sample_factory.envs.procgen.env import ProcgenBatchedEnv

    return ProcgenBatchedEnv(options, num_envs)


def _options(name: str, cfg: Config, render_mode: str | None) -> ProcgenOptions:
    game = name.removeprefix(PREFIX).lower()
    if game not in GAMES:
        nearest = difflib.get_close_matches(game, GAMES, n=1, cutoff=0.0)[0]
        raise UnknownEnvError(f"--env={name} is not a Procgen game, try --env={PREFIX}{nearest}.")
    require_isolated_package(name, "procgen", INSTALL)
    from sample_factory.envs.procgen.env import ProcgenOptions

    return ProcgenOptions(
        game=game,
        num_levels=cfg.procgen_num_levels,
        start_level=cfg.procgen_start_level,
        distribution_mode=cfg.procgen_distribution_mode,
        channels_last=cfg.pixel_format == "HWC",
        render_mode=render_mode,
    )


FAMILY = EnvFamily(
    prefix=PREFIX,
    make_env=make_procgen_env,
    settings=SETTINGS,
    defaults=DEFAULTS,
    make_vector_env=make_procgen_batch,
)

"""The MiniGrid family: names are full gymnasium ids such as `MiniGrid-DoorKey-6x6-v0`.

The registry reads `FAMILY`. Defaults are those of v1's recipes.
Invariant: the package is imported when an environment is made, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sample_factory.config.setting import Setting
from sample_factory.envs.registry import EnvFamily, UnknownEnvError

if TYPE_CHECKING:
    from sample_factory.config.config import Config
    from sample_factory.envs.contract import EnvConfig

PREFIX = "MiniGrid"

SETTINGS = (
    Setting(
        "minigrid_direction",
        bool,
        False,
        "Also observe which way the agent faces, as a second input of four numbers called direction.",
    ),
    Setting(
        "minigrid_one_hot",
        bool,
        False,
        "Observe every kind of object, colour and state on a plane of its own, 20 of zeros and ones, "
        "instead of as three numbers per cell. Give --obs_subtract_mean=0 --obs_scale=1 with it.",
    ),
)

DEFAULTS: dict[str, Any] = {
    "encoder_type": "conv",
    "encoder_subtype": "minigrid_convnet_tiny",
    "hidden_size": 128,
    "obs_subtract_mean": 4.0,
    "obs_scale": 8.0,
    "exploration_loss_coeff": 0.005,
    "env_frameskip": 1,
}


def make_minigrid_env(
    name: str, cfg: Config, env_config: EnvConfig | None = None, render_mode: str | None = None
) -> Any:
    """One grid world, seen as the agent sees it."""
    import gymnasium

    from sample_factory.envs.minigrid.env import MiniGridEnv, make_grid
    from sample_factory.envs.wrappers import SkipFrames

    try:
        grid = make_grid(name, render_mode)
        if "-WFC-" in name:  # made from pictures of patterns, which it looks for only now
            grid.reset()
    except gymnasium.error.UnregisteredEnv as error:
        raise UnknownEnvError(
            f"--env={name} is not a MiniGrid world ({error}), try --env=MiniGrid-Empty-8x8-v0."
        ) from error
    except FileNotFoundError as error:  # the package does not ship them
        raise UnknownEnvError(
            f"--env={name} needs {error.filename}, which the installed minigrid lacks; "
            "other worlds work, such as --env=MiniGrid-Empty-8x8-v0."
        ) from error
    channels_last = cfg.pixel_format == "HWC"
    env = MiniGridEnv(grid, cfg.minigrid_direction, channels_last, cfg.minigrid_one_hot)
    frameskip = cfg.env_frameskip or 1
    return SkipFrames(env, frameskip) if frameskip > 1 else env


FAMILY = EnvFamily(
    prefix=PREFIX,
    make_env=make_minigrid_env,
    settings=SETTINGS,
    defaults=DEFAULTS,
    extra="minigrid",
    package="minigrid",
)

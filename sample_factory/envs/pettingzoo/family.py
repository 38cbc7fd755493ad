"""The PettingZoo family: `pettingzoo_<module>`, such as `pettingzoo_sisl.pursuit_v5`.

The module is one of PettingZoo's, of the packages that grew out of it (mpe2, magent2), or any other that has
`parallel_env` or `env`; `__` may stand for the dots. The registry reads `FAMILY`.
Invariant: PettingZoo is imported when an environment is made, not before.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sample_factory.config.setting import Setting
from sample_factory.envs.json_kwargs import json_kwargs
from sample_factory.envs.registry import EnvFamily, MissingPackageError, UnknownEnvError

if TYPE_CHECKING:
    from sample_factory.config.config import Config
    from sample_factory.envs.contract import EnvConfig

PREFIX = "pettingzoo_"

log = logging.getLogger(__name__)

# Groups that left PettingZoo for packages of their own.
MOVED_GROUPS: dict[str, tuple[str, str]] = {
    "mpe": ("mpe2", "mpe2"),
    "magent": ("magent2.environments", "magent2"),
}

SETTINGS = (
    Setting(
        "pettingzoo_kwargs",
        str,
        "",
        "Keyword arguments of the environment as JSON, such as '{\"max_cycles\": 100}'.",
    ),
)

VECTOR_DEFAULTS: dict[str, Any] = {
    "encoder_type": "mlp",
    "encoder_subtype": "mlp_mujoco",
    "hidden_size": 128,
    "env_frameskip": 1,
}
PICTURE_DEFAULTS: dict[str, Any] = {
    "encoder_type": "conv",
    "encoder_subtype": "convnet_simple",
    "hidden_size": 512,
    "obs_scale": 255.0,
    "env_frameskip": 1,
}
PICTURES = ("pistonball", "cooperative_pong", "atari.")


def defaults_for(env_name: str) -> dict[str, Any]:
    """A convolutional network for the environments that show pictures, fully connected layers for others."""
    path = module_path(env_name)
    return PICTURE_DEFAULTS if any(part in path for part in PICTURES) else VECTOR_DEFAULTS


def module_path(env_name: str) -> str:
    """`sisl.pursuit_v5` for `pettingzoo_sisl__pursuit_v5`."""
    return env_name.removeprefix(PREFIX).replace("__", ".")


def import_game(env_name: str) -> ModuleType:
    """The module that makes an environment.

    Raises:
        UnknownEnvError: there is no such module.
        MissingPackageError: the module, or one it needs, is not installed.
    """
    path = module_path(env_name)
    group, _, rest = path.partition(".")
    home, package = MOVED_GROUPS.get(group, ("", f"'pettingzoo[{group}]'"))
    candidates = [f"{home}.{rest}"] if home else []
    for module in (*candidates, f"pettingzoo.{path}", path):
        if _exists(module):
            return _import(module, env_name, package)
    if home and not _exists(home):
        raise MissingPackageError(
            f"--env={env_name} needs the package {package}, which is not installed: pip install {package}",
            name=package,
        )
    raise UnknownEnvError(
        f"--env={env_name} names no module of PettingZoo, try --env={PREFIX}sisl.pursuit_v5."
    )


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # a package on the way to it does not exist, or says that it moved
        return False


def _import(module: str, env_name: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(
            f"--env={env_name} cannot be imported ({error}): pip install {package}", name=error.name
        ) from error


def make_pettingzoo_env(
    name: str, cfg: Config, env_config: EnvConfig | None = None, render_mode: str | None = None
) -> Any:
    """One multi-agent environment; turn-based games are played in lock step."""
    game = import_game(name)
    from sample_factory.envs.pettingzoo.env import PettingZooEnv
    from sample_factory.envs.pettingzoo.turns import TurnBasedEnv, parallel_from_turns

    if not hasattr(game, "parallel_env") and not hasattr(game, "env"):
        raise UnknownEnvError(f"--env={name}: {game.__name__} has neither parallel_env nor env.")
    kwargs = json_kwargs("pettingzoo_kwargs", cfg.pettingzoo_kwargs) | {"render_mode": render_mode}
    try:
        if hasattr(game, "parallel_env"):
            env = game.parallel_env(**kwargs)
        else:
            env = parallel_from_turns(game.env(**kwargs), name)
    except ImportError as error:  # some games look for the package they need only when they are made
        raise MissingPackageError(f"--env={name} cannot be made: {error}", name=error.name) from error
    if (cfg.env_frameskip or 1) > 1:
        log.warning("--env_frameskip=%d has no effect on PettingZoo environments.", cfg.env_frameskip)
    channels_last, turn_based = cfg.pixel_format == "HWC", isinstance(env, TurnBasedEnv)
    return PettingZooEnv(env, name, channels_last=channels_last, turn_based=turn_based)


FAMILY = EnvFamily(
    prefix=PREFIX,
    make_env=make_pettingzoo_env,
    settings=SETTINGS,
    defaults=defaults_for,
    extra="pettingzoo",
    package="pettingzoo",
)

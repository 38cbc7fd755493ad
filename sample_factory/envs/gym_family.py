"""The family of all gymnasium environments: `gym_<id>`, such as `gym_CartPole-v1`.

The id may name the module that registers it, `gym_<module>:<id>`. Old versions of an id stand for the newest
one, so that commands from years ago still run.

Invariant: gymnasium is imported when an environment is made, not when the family's settings are read.
"""

from __future__ import annotations

import copy
import difflib
import importlib
import logging
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from sample_factory.config.setting import Setting
from sample_factory.envs.registry import EnvFamily, MissingPackageError, UnknownEnvError

if TYPE_CHECKING:
    from gymnasium import Env
    from gymnasium.envs.registration import EnvSpec
    from gymnasium.vector import VectorEnv

    from sample_factory.config.config import Config
    from sample_factory.envs.contract import EnvConfig

PREFIX = "gym_"

log = logging.getLogger(__name__)


def make_gym_env(env_name: str, cfg: Config, env_config: EnvConfig | None, render_mode: str | None) -> Env:
    """A gymnasium environment with its own time limit and nothing that only checks for mistakes."""
    wanted = find_spec(env_name)
    try:
        made_of, env = wanted, _made(wanted, render_mode)
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"--env={env_name} needs a package that is not installed: pip install {error.name}",
            name=error.name,
        ) from error
    except ImportError as error:  # a version that gymnasium lists, but no longer has
        made_of = newest_version(wanted)
        if made_of is wanted:
            raise MissingPackageError(f"--env={env_name} cannot be made: {error}") from error
        env = _made(made_of, render_mode)
    if made_of.id not in env_name and (env_config is None or env_config.env_id == 0):  # not in each worker
        log.warning(
            "gymnasium has no %s; using its newest version %s.", env_name.removeprefix(PREFIX), made_of.id
        )
    return _wrapped(env, frameskip=cfg.get("env_frameskip") or 1, channels_last=_channels_last(cfg))


def _made(spec: EnvSpec, render_mode: str | None) -> Env:
    import gymnasium

    # gymnasium's checks cost as much as a step of a small environment; the engine keeps the order anyway.
    spec = copy.deepcopy(spec)
    spec.order_enforce = False
    spec.disable_env_checker = True
    if render_mode is not None:  # not every environment takes it
        spec.kwargs["render_mode"] = render_mode
    with _quiet(spec):
        return gymnasium.make(spec)


def _quiet(spec: EnvSpec) -> AbstractContextManager[None]:
    """Keeps MuJoCo's remarks about its models out of the working directory."""
    if not str(spec.entry_point).startswith("gymnasium.envs.mujoco"):
        return nullcontext()
    from sample_factory.envs.mujoco_remarks import quiet_model_compiler

    return quiet_model_compiler()


def make_gym_vector_env(env_name: str, cfg: Config, num_envs: int) -> VectorEnv | None:
    """Copies that step in one call, if --vectorized_envs asks for it and the environment offers it."""
    if not cfg.get("vectorized_envs"):
        return None
    import gymnasium

    spec = find_spec(env_name)
    if spec.vector_entry_point is None:
        log.warning("--vectorized_envs=True has no effect: %s has no vectorised version.", env_name)
        return None
    if (cfg.get("env_frameskip") or 1) > 1:
        log.warning("--vectorized_envs=True has no effect with frameskip; use --env_frameskip=1.")
        return None
    return gymnasium.make_vec(spec, num_envs=num_envs, vectorization_mode="vector_entry_point")


def find_spec(env_name: str) -> EnvSpec:
    """What gymnasium knows under a name of this family.

    Raises:
        UnknownEnvError: gymnasium knows nothing like it.
        MissingPackageError: the module named before the colon cannot be imported.
    """
    from gymnasium.envs.registration import find_highest_version, get_env_id, parse_env_id, registry
    from gymnasium.error import Error

    module, _, env_id = env_name.removeprefix(PREFIX).rpartition(":")
    if module:
        _import_registering_module(module, env_name)
    if env_id in registry:
        return registry[env_id]
    try:
        namespace, name, wanted = parse_env_id(env_id)
    except Error:  # the id is malformed, so no version of it exists
        raise _unknown(env_name, env_id, list(registry)) from None
    newest = find_highest_version(namespace, name)
    if newest is None or (wanted is not None and wanted > newest):
        raise _unknown(env_name, env_id, list(registry))
    return registry[get_env_id(namespace, name, newest)]


def newest_version(spec: EnvSpec) -> EnvSpec:
    """The same environment in the highest version that is registered."""
    from gymnasium.envs.registration import find_highest_version, get_env_id, registry

    newest = find_highest_version(spec.namespace, spec.name)
    return registry[get_env_id(spec.namespace, spec.name, newest)]


def _import_registering_module(module: str, env_name: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"--env={env_name} needs the module {error.name}, which is not installed.", name=error.name
        ) from error


def _unknown(env_name: str, env_id: str, known: list[str]) -> UnknownEnvError:
    nearest = difflib.get_close_matches(env_id, known, n=1, cutoff=0.5)
    hint = f"did you mean --env={PREFIX}{nearest[0]}?" if nearest else f"try --env={PREFIX}CartPole-v1."
    return UnknownEnvError(f"gymnasium has no environment {env_id!r} (--env={env_name}); {hint}")


def _channels_last(cfg: Config) -> bool:
    return bool(cfg.get("pixel_format", "CHW") == "HWC")


def _wrapped(env: Any, frameskip: int, channels_last: bool) -> Any:
    import numpy as np
    from gymnasium import spaces

    from sample_factory.envs.frame_wrappers import MAX_CHANNELS, PixelFormatChw
    from sample_factory.envs.wrappers import ClipActions, SkipFrames

    if isinstance(env.action_space, spaces.Box):
        env = ClipActions(env)
    if frameskip > 1:
        env = SkipFrames(env, frameskip)
    space = env.observation_space
    is_picture = isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3
    if is_picture and not channels_last and space.shape[0] > MAX_CHANNELS >= space.shape[2]:
        env = PixelFormatChw(env)
    return env


FAMILY = EnvFamily(
    prefix=PREFIX,
    make_env=make_gym_env,
    settings=(
        Setting(
            name="vectorized_envs",
            type=bool,
            default=False,
            help="Step all environments of a split in one call, where gymnasium has a vectorised version.",
        ),
    ),
    defaults={"env_frameskip": 1},
    make_vector_env=make_gym_vector_env,
    extra="gym",
    package="gymnasium",
)

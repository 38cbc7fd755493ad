"""Makes one environment from its name, checked and ready for a worker.

Used by rollout workers, evaluation and the session (which makes one only to read its spaces). What comes back
has `num_agents` and `is_multiagent`, and observes a Box or a flat Dict of Boxes and text: see `observations`.

Invariant: whatever a person can put right (a name, a missing package, a space) is reported in one sentence.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sample_factory.envs.contract import EnvConfig, agents_of
from sample_factory.envs.observations import EncodedObservations, needs_encoding
from sample_factory.envs.registry import EnvFamily, MissingPackageError, family_for
from sample_factory.envs.spaces import UnsupportedSpaceError, check_action_space
from sample_factory.envs.wrappers import EnvWrapper, layer_attribute

if TYPE_CHECKING:
    from sample_factory.config.config import Config

DISTRIBUTION = "sample-factory-rebuilt"


def make_env(
    env_name: str, cfg: Config, env_config: EnvConfig | None, render_mode: str | None = None
) -> gymnasium.Env:
    """Makes an environment of any registered family.

    Args:
        env_name: full name with the family's prefix.
        cfg: the settings; families read their own from it.
        env_config: where the environment lives; None for one that is only asked for its spaces.
        render_mode: as gymnasium's `make` takes it.

    Raises:
        UnknownEnvError: no family, or no environment of the family, has this name.
        MissingPackageError: the simulator is not installed.
        UnsupportedSpaceError: policies cannot observe or act in its spaces.
    """
    family = family_for(env_name)
    _require_package(family, env_name)
    try:
        env = family.make_env(env_name, cfg, env_config, render_mode)
    except ModuleNotFoundError as error:
        package = error.name or ""
        if not family.extra or package.startswith("sample_factory"):  # not ours to explain
            raise
        raise _missing(family, env_name, package or family.package) from error
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingPackageError(f"--env={env_name} cannot be made: {error}") from error
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise UnsupportedSpaceError(
            f"--env={env_name} is a {type(env).__name__}, many environments in one: give its constructor an "
            "argument num_envs, and it is stepped as one."
        )
    return _with_supported_spaces(_with_agents(env), env_name)


def make_vector_env(env_name: str, cfg: Config, num_envs: int) -> Any | None:
    """Many copies of an environment that step in one call, for `batched.as_batched`.

    None when the family has no such thing, or was not asked for it.
    """
    family = family_for(env_name)
    if family.make_vector_env is None:
        return None
    _require_package(family, env_name)
    return family.make_vector_env(env_name, cfg, num_envs)


class ZeroBasedActions(EnvWrapper):
    """Lets policies count discrete actions from 0 where the environment counts from `start`."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        space = env.action_space
        self._in_lists = self.is_multiagent
        self._start: Any
        if isinstance(space, spaces.MultiDiscrete):
            self._start = space.start
            self.action_space = spaces.MultiDiscrete(space.nvec)
        elif isinstance(space, spaces.Discrete):
            self._start = int(space.start)
            self.action_space = spaces.Discrete(int(space.n))
        else:
            raise TypeError(f"ZeroBasedActions shifts Discrete and MultiDiscrete actions, not {space}.")

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps with the action in the environment's own counting."""
        if self._in_lists:
            return self.env.step([entry + self._start for entry in action])
        return self.env.step(action + self._start)


def _require_package(family: EnvFamily, env_name: str) -> None:
    if family.package and importlib.util.find_spec(family.package.partition(".")[0]) is None:
        raise _missing(family, env_name, family.package)


def _missing(family: EnvFamily, env_name: str, package: str) -> MissingPackageError:
    remedy = f"'{DISTRIBUTION}[{family.extra}]'" if family.extra else package
    return MissingPackageError(
        f"--env={env_name} needs the package {package}, which is not installed: pip install {remedy}",
        name=package,
    )


def _with_agents(env: Any) -> Any:
    """Puts `num_agents` and `is_multiagent` on the outermost layer: gymnasium's wrappers hide them."""
    if not hasattr(env, "num_agents"):
        env.num_agents = int(layer_attribute(env, "num_agents", 1))
    if not hasattr(env, "is_multiagent"):
        env.is_multiagent = bool(layer_attribute(env, "is_multiagent", agents_of(env) > 1))
    return env


def _with_supported_spaces(env: Any, env_name: str) -> Any:
    if needs_encoding(env.observation_space):
        env = EncodedObservations(env, env_name)
    check_action_space(env.action_space, env_name)
    if isinstance(env.action_space, spaces.Discrete | spaces.MultiDiscrete) and np.any(
        env.action_space.start
    ):
        env = ZeroBasedActions(env)
    return env

"""Environments that are often run together, by name: `--env_bundle=doom/basic`.

Names are `family/bundle`; the bundle alone is enough where only one family has it. Invariant: every
environment listed here belongs to a family of ours.
"""

from __future__ import annotations

import difflib

from sample_factory.envs.atari.games import GAMES
from sample_factory.runner.errors import RunnerError

_DOOM_BASIC = (
    "my_way_home",
    "deadly_corridor",
    "defend_the_center",
    "defend_the_line",
    "health_gathering",
    "health_gathering_supreme",
)


def _names(prefix: str, *names: str) -> tuple[str, ...]:
    return tuple(prefix + name for name in names)


BUNDLES: dict[str, tuple[str, ...]] = {
    "doom/basic": _names("doom_", *_DOOM_BASIC),
    "doom/battle": _names("doom_", "battle", "battle2"),
    "dmlab/30": ("dmlab_30",),
    "atari/easy": _names("atari_", "pong"),
    "atari/normal": _names(
        "atari_", "qbert", "mspacman", "spaceinvaders", "frostbite", "freeway", "beamrider", "asteroids"
    ),
    "atari/hard_exploration": _names("atari_", "montezuma", "pitfall", "privateye"),
    "atari/57": _names("atari_", *GAMES),
    "mujoco/debug": _names("mujoco_", "hopper"),
    "mujoco/idp": _names("mujoco_", "doublependulum"),
    "mujoco/walker": _names("mujoco_", "walker"),
    "mujoco/eevee": _names("mujoco_", "pendulum", "doublependulum"),
    "mujoco/jolteon": _names("mujoco_", "hopper", "walker", "halfcheetah"),
    "mujoco/flareon": _names("mujoco_", "doublependulum", "ant"),
    "mujoco/glaceon": _names("mujoco_", "hopper", "walker", "halfcheetah", "ant"),
    "mujoco/humanoid": _names("mujoco_", "humanoid"),
    "mujoco/ant": _names("mujoco_", "ant"),
    "mujoco/suite": _names("mujoco_", "doublependulum", "hopper", "walker", "halfcheetah", "ant"),
    "dmcontrol/hop": _names("dmcontrol_", "hopper_hop"),
    "dmcontrol/run": _names("dmcontrol_", "walker_run", "cheetah_run"),
    "dmcontrol/glaceon": _names("dmcontrol_", "hopper_hop", "walker_run", "cheetah_run"),
    "dmcontrol/stacker": _names("dmcontrol_", "stacker_stack_2", "stacker_stack_4"),
    "dmcontrol/humanoid": _names("dmcontrol_", "humanoid_walk", "humanoid_run"),
    "dmcontrol/cmu": _names("dmcontrol_", "humanoid_CMU_stand", "humanoid_CMU_run"),
    "dmcontrol/quad": _names(
        "dmcontrol_", "quadruped_walk", "quadruped_run", "quadruped_escape", "quadruped_fetch"
    ),
    "dmcontrol/dog": _names("dmcontrol_", "dog_run", "dog_fetch"),
    "gym/classic": _names("gym_", "CartPole-v1", "Acrobot-v1", "MountainCar-v0"),
}


def bundle_envs(names: str) -> list[str]:
    """The environments of one or more bundles, separated by commas.

    Raises:
        RunnerError: when a name is unknown or means several bundles.
    """
    envs: dict[str, None] = {}
    for name in names.split(","):
        envs |= dict.fromkeys(BUNDLES[_full_name(name.strip())])
    return list(envs)


def listing() -> list[str]:
    """All bundles, one line each."""
    return [f"{name}: {' '.join(envs)}" for name, envs in BUNDLES.items()]


def _full_name(name: str) -> str:
    candidates = [full for full in BUNDLES if name in (full, full.replace("/", "_"), full.split("/")[1])]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise RunnerError(f"--env_bundle={name} means several bundles; use one of {', '.join(candidates)}.")
    nearest = difflib.get_close_matches(
        name, [*BUNDLES, *(full.split("/")[1] for full in BUNDLES)], n=1, cutoff=0.0
    )
    raise RunnerError(
        f"--env_bundle={name} is unknown, try --env_bundle={nearest[0]}; --list_bundles shows all."
    )

"""The built-in environment families, as text: prefix -> `module:attribute` of its `EnvFamily`.

Read by the registry alone. A family's module is imported when an environment of that family is asked for,
so nobody pays for simulators they do not use.

Invariant: the order is the match order, and no prefix here is the beginning of a later one.
"""

from __future__ import annotations

from types import MappingProxyType

BUILT_IN_FAMILIES = MappingProxyType(
    {
        "doom_": "sample_factory.envs.doom.family:FAMILY",
        "atari_": "sample_factory.envs.atari.family:FAMILY",
        "dmlab_": "sample_factory.envs.dmlab.family:FAMILY",
        "mujoco_": "sample_factory.envs.mujoco.family:FAMILY",
        "MiniGrid": "sample_factory.envs.minigrid.family:FAMILY",
        "gym_": "sample_factory.envs.gym_family:FAMILY",
        "pettingzoo_": "sample_factory.envs.pettingzoo.family:FAMILY",
        "envpool_": "sample_factory.envs.envpool.family:FAMILY",
        "nethack_": "sample_factory.envs.nethack.family:FAMILY",
        "procgen_": "sample_factory.envs.procgen.family:FAMILY",
        "dmcontrol_": "sample_factory.envs.dmcontrol.family:FAMILY",
    }
)

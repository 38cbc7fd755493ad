"""The Doom family: `doom_<name>`, on the engine of the vizdoom package.

The registry reads `FAMILY`; flags and defaults are v1's. `register_additional_doom_env` adds environments of
one's own to the family, for every process of the session.

Invariant: neither gymnasium nor the engine is imported before an environment is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sample_factory.config.setting import Setting
from sample_factory.envs.registry import EnvFamily, family_for, register_family

if TYPE_CHECKING:
    from sample_factory.config.config import Config
    from sample_factory.envs.contract import EnvConfig
    from sample_factory.envs.doom.specs import DoomSpec

PREFIX = "doom_"

SETTINGS = (
    Setting("num_agents", int, -1, "Agents in one match; -1 takes the environment's own number."),
    Setting(
        "num_humans", int, 0, "Seats in a match kept free for people who join over the network.", minimum=0
    ),
    Setting("num_bots", int, -1, "The engine's own players in a match; -1 takes the environment's number."),
    Setting(
        "start_bot_difficulty",
        int,
        None,
        "How strong bots are at first, 0 to 150; None is 20, and 150 keeps them at their strongest.",
        minimum=0,
        maximum=150,
    ),
    Setting("timelimit", float, None, "Minutes a match lasts; None takes the environment's own.", above=0.0),
    Setting("res_w", int, 128, "Width of the picture the agent sees, in pixels.", minimum=1),
    Setting("res_h", int, 72, "Height of the picture the agent sees, in pixels.", minimum=1),
    Setting("wide_aspect_ratio", bool, False, "Draw 256x144 instead of 160x120 before scaling."),
)

DEFAULTS: dict[str, Any] = {
    "encoder_type": "conv",
    "encoder_subtype": "convnet_simple",
    "encoder_custom": "vizdoom",
    "hidden_size": 512,
    "ppo_clip_value": 0.2,
    "obs_subtract_mean": 0.0,
    "obs_scale": 255.0,
    "env_frameskip": 4,
    "fps": 35,
    "record_to": None,
    "exploration_loss": "symmetric_kl",
    "exploration_loss_coeff": 0.001,
}


@dataclass(frozen=True)
class MakeDoomEnv:
    """The family's constructor; it carries the specs users added, so that workers know them too."""

    additional: dict[str, DoomSpec] = field(default_factory=dict)

    def __call__(
        self,
        name: str,
        cfg: Config,
        env_config: EnvConfig | None = None,
        render_mode: str | None = None,
    ) -> Any:
        """Makes one environment by name."""
        from sample_factory.envs.doom.make import find_spec, make_from_spec

        return make_from_spec(find_spec(name, self.additional), cfg, env_config, render_mode)


FAMILY = EnvFamily(
    prefix=PREFIX,
    make_env=MakeDoomEnv(),
    settings=SETTINGS,
    defaults=DEFAULTS,
    extra="doom",
    package="vizdoom",
)

make_doom_env = FAMILY.make_env


def register_additional_doom_env(spec: DoomSpec, settings: Sequence[Setting] = ()) -> None:
    """Adds an environment to the Doom family, or replaces one of the same name.

    Args:
        spec: its name must begin with `doom_`.
        settings: flags of its own; `DoomSpec.extra_wrappers` tells how its wrappers get them.
    """
    if not spec.name.startswith(PREFIX):
        raise ValueError(f"A Doom environment's name begins with {PREFIX}: {PREFIX}{spec.name} would work.")
    family = family_for(spec.name)
    known = family.make_env.additional if isinstance(family.make_env, MakeDoomEnv) else {}
    register_family(
        replace(
            family,
            prefix=PREFIX,
            make_env=MakeDoomEnv({**known, spec.name: spec}),
            settings=(*family.settings, *settings),
        )
    )

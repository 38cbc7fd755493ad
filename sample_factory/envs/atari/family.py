"""The Atari family: `atari_<game>` for 57 games.

The registry reads `FAMILY`. Defaults are those of v1's recipes; the preprocessing is the one the field uses.
Invariant: the emulator is imported when an environment is made, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sample_factory.config.setting import Setting
from sample_factory.envs.atari.games import PREFIX, game_of, limit_frames
from sample_factory.envs.registry import EnvFamily

if TYPE_CHECKING:
    from sample_factory.config.config import Config
    from sample_factory.envs.contract import EnvConfig

SETTINGS = (
    Setting(
        "atari_episodic_life",
        bool,
        True,
        "End an episode when a life is lost; true_reward stays the score of the whole game.",
    ),
    Setting(
        "atari_sticky_actions",
        float,
        0.0,
        "Probability that a frame repeats the button of the frame before; 0 is off, 0.25 is customary.",
        minimum=0.0,
        maximum=1.0,
    ),
)

DEFAULTS: dict[str, Any] = {
    "encoder_type": "conv",
    "encoder_subtype": "convnet_simple",
    "hidden_size": 512,
    "obs_subtract_mean": 0.0,
    "obs_scale": 255.0,
    "gamma": 0.99,
    "reward_clip": 1.0,
    "env_frameskip": 4,
    "env_framestack": 4,
    "exploration_loss_coeff": 0.01,
}


def make_atari_env(
    name: str, cfg: Config, env_config: EnvConfig | None = None, render_mode: str | None = None
) -> Any:
    """One Atari game with the preprocessing of `AtariEnv`."""
    game = game_of(name)
    from sample_factory.envs.atari.env import AtariEnv, AtariOptions

    options = AtariOptions(
        game=game,
        frameskip=cfg.env_frameskip or 4,
        framestack=cfg.env_framestack,
        limit_frames=limit_frames(game),
        episodic_life=cfg.atari_episodic_life,
        sticky_actions=cfg.atari_sticky_actions,
        channels_last=cfg.pixel_format == "HWC",
    )
    return AtariEnv(options, render_mode)


FAMILY = EnvFamily(
    prefix=PREFIX,
    make_env=make_atari_env,
    settings=SETTINGS,
    defaults=DEFAULTS,
    extra="atari",
    package="ale_py",
)

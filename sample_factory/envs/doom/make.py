"""From a spec and the settings to an environment.

`family` calls it; it decides whether an environment is one game, a match against bots, or a match between
agents, and puts the wrappers in their order: recording, statistics, curriculum, the spec's own, scaling of
rewards.

Invariant: no engine runs before the environment's first `reset`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import gymnasium

from sample_factory.envs.contract import EnvConfig
from sample_factory.envs.doom.bots import START_DIFFICULTY, BotRoster
from sample_factory.envs.doom.env import DoomEnv, DoomOptions
from sample_factory.envs.doom.match import MatchRules, Seat, first_port
from sample_factory.envs.doom.multiplayer import MultiplayerDoomEnv
from sample_factory.envs.doom.scenario import Scenario, require_files
from sample_factory.envs.doom.scenario_files import FETCH_COMMAND, MissingScenarioError
from sample_factory.envs.doom.specs import DOOM_SPECS, DoomSpec
from sample_factory.envs.doom.standings import BotCurriculum, MatchStatistics
from sample_factory.envs.recording import Recording
from sample_factory.envs.registry import UnknownEnvError
from sample_factory.envs.wrappers import RewardScaling

if TYPE_CHECKING:
    from sample_factory.config.config import Config

log = logging.getLogger(__name__)

FRAMES_PER_MINUTE = 60 * 35
DEFAULT_FRAMESKIP = 4
ALONE = EnvConfig(worker_index=0, vector_index=0, env_id=0)


@dataclass(frozen=True)
class Blueprint:
    """What all players of one environment have in common."""

    spec: DoomSpec
    cfg: Config
    scenario: Scenario | str
    options: DoomOptions
    render_mode: str | None
    record_to: str | None
    bots: BotRoster | None
    rules: MatchRules | None
    first_port: int

    def player(self, index: int, options: DoomOptions) -> gymnasium.Env:
        """One player's environment with all wrappers."""
        seat = None if self.rules is None else Seat(self.rules, index, self.first_port)
        bots = self.bots if index == 0 else None
        env: gymnasium.Env = DoomEnv(
            self.scenario, self.spec.action_space, options, self.render_mode, seat, bots
        )
        if self.record_to is not None and index == 0:
            env = Recording(env, self.record_to)
        if seat is not None:
            env = MatchStatistics(env)
        if bots is not None:
            env = BotCurriculum(env, bots)
        for wrapper, arguments in self.spec.extra_wrappers:
            env = wrapper(env, **(arguments(self.cfg) if callable(arguments) else arguments))
        return env if self.spec.reward_scaling == 1.0 else RewardScaling(env, self.spec.reward_scaling)


def find_spec(name: str, additional: dict[str, DoomSpec]) -> DoomSpec:
    """The spec of an environment; what users registered comes first.

    Raises:
        UnknownEnvError: there is none of this name.
    """
    specs = {spec.name: spec for spec in DOOM_SPECS} | additional
    if name not in specs:
        raise UnknownEnvError(f"There is no Doom environment {name}; known ones are {', '.join(specs)}.")
    return specs[name]


def make_from_spec(
    spec: DoomSpec, cfg: Config, env_config: EnvConfig | None = None, render_mode: str | None = None
) -> gymnasium.Env:
    """Makes the environment a spec describes.

    Raises:
        MissingScenarioError: a file of the scenario is not there, with the command that fetches it.
    """
    place = env_config or ALONE
    num_agents = cfg.num_agents if cfg.num_agents > 0 else spec.num_agents
    num_bots = cfg.num_bots if cfg.num_bots >= 0 else spec.num_bots
    minutes = spec.timelimit if cfg.timelimit is None else cfg.timelimit
    is_match = num_agents + cfg.num_humans + num_bots > 1
    options = _options(spec, cfg)
    rules = None
    if is_match:
        rules = MatchRules(num_agents, cfg.num_humans, minutes, spec.respawn_delay)
        options = replace(options, limit_frames=int(minutes * FRAMES_PER_MINUTE))
    blueprint = Blueprint(
        spec=spec,
        cfg=cfg,
        scenario=_scenario(spec, is_silent=place.env_id > 0),
        options=options,
        render_mode=render_mode,
        record_to=cfg.get("record_to") if place.env_id == 0 else None,
        bots=BotRoster(num_bots, _difficulty(cfg)) if num_bots else None,
        rules=rules,
        first_port=first_port(place.worker_index, place.vector_index),
    )
    if num_agents == 1:
        return blueprint.player(0, options)
    # A frame at a time, so that nobody runs ahead; the match holds the actions.
    players = [blueprint.player(index, replace(options, frameskip=1)) for index in range(num_agents)]
    return MultiplayerDoomEnv(players, options.frameskip, blueprint.first_port)


def _options(spec: DoomSpec, cfg: Config) -> DoomOptions:
    return DoomOptions(
        frameskip=cfg.env_frameskip or DEFAULT_FRAMESKIP,
        width=cfg.res_w,
        height=cfg.res_h,
        wide=cfg.wide_aspect_ratio,
        channels_last=cfg.pixel_format == "HWC",
        real_time=cfg.get("fps") == 0,
        limit_frames=max(spec.default_timeout, 0),
    )


def _difficulty(cfg: Any) -> float:
    return float(START_DIFFICULTY if cfg.start_bot_difficulty is None else cfg.start_bot_difficulty)


def _scenario(spec: DoomSpec, is_silent: bool) -> Scenario | str:
    """The spec's scenario, or its fallback when the file is not there."""
    try:
        require_files(spec.scenario)
    except MissingScenarioError as error:
        if spec.fallback is None:
            raise MissingScenarioError(f"--env={spec.name} cannot be made: {error}") from error
        if not is_silent:
            log.warning(
                "%s plays %s with the same buttons and resolution, because its own scenario is missing; "
                "for comparable numbers fetch it with: %s",
                spec.name,
                spec.fallback.wad,
                FETCH_COMMAND,
            )
        return spec.fallback
    return spec.scenario

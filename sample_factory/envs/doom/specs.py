"""The table of Doom environments: scenario, actions, players and rewards of each.

`make` makes environments from it. Numbers are those of the recipes people compare with; times are in frames,
of which a second has 35.

Invariant: a spec is complete; nothing is read from configuration files except for specs that name one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gymnasium import spaces

from sample_factory.envs.doom import actions, rewards
from sample_factory.envs.doom.measurements import Measurements
from sample_factory.envs.doom.scenario import Scenario

Arguments = Mapping[str, Any]
Wrapper = tuple[Any, Arguments | Callable[[Any], Arguments]]  # class; keyword arguments, or a function of cfg

UNLIMITED = 10**9


@dataclass(frozen=True)
class DoomSpec:
    """One Doom environment.

    Args:
        name: full name, `doom_...`.
        scenario: a `Scenario`, or the engine's `.cfg` file: an absolute path, or a name as in vizdoom's
            `scenarios` folder or the cache of fetched ones.
        action_space: its heads cover the scenario's buttons in order, see `actions`.
        reward_scaling: factor on all rewards.
        default_timeout: longest episode in frames, if positive; the scenario's own limit counts as well.
        num_agents: players of one match; more than one makes the environment multi-agent.
        num_bots: the engine's own players.
        respawn_delay: seconds the dead wait in a match.
        timelimit: length of a match in minutes.
        extra_wrappers: `(class, keyword arguments)`, innermost first; instead of the arguments a function may
            stand that gets the settings and returns them.
        fallback: played, with a warning, when the scenario's file is missing.
    """

    name: str
    scenario: Scenario | str
    action_space: spaces.Space[Any]
    reward_scaling: float = 1.0
    default_timeout: int = -1
    num_agents: int = 1
    num_bots: int = 0
    respawn_delay: int = 0
    timelimit: float = 4.0
    extra_wrappers: Sequence[Wrapper] = ()
    fallback: Scenario | None = None


POSITION = ("POSITION_X", "POSITION_Y", "ANGLE")
WEAPON_IN_HAND = ("SELECTED_WEAPON", "SELECTED_WEAPON_AMMO")
BATTLE_VARIABLES = (*POSITION, *WEAPON_IN_HAND, "HEALTH", "USER2")
MATCH_VARIABLES = (
    *POSITION,
    *WEAPON_IN_HAND,
    *("HEALTH", "ARMOR", "USER2", "DEATHCOUNT", "FRAGCOUNT", "HITCOUNT", "DEAD"),
    *(f"WEAPON{k}" for k in range(10)),
    *(f"AMMO{k}" for k in range(10)),
    *("ATTACK_READY", "DAMAGECOUNT", "PLAYER_NUMBER", "PLAYER_COUNT"),
    *(f"PLAYER{k}_FRAGCOUNT" for k in range(1, 10)),
)

BASIC = Scenario(
    "basic.wad",
    ("MOVE_LEFT", "MOVE_RIGHT", "ATTACK"),
    ("AMMO2", *POSITION),
    living_reward=-1.0,
    timeout_frames=300,
    start_frame=14,
    skill=5,
)
MY_WAY_HOME = Scenario(
    "my_way_home.wad",
    actions.BASIC_BUTTONS,
    ("AMMO0",),
    living_reward=-0.0001,
    timeout_frames=2100,
    start_frame=10,
    skill=5,
    hud=False,
)
DEADLY_CORRIDOR = Scenario(
    "deadly_corridor.wad",
    actions.EXTENDED_BUTTONS,
    ("HEALTH",),
    death_penalty=100.0,
    timeout_frames=2100,
    skill=5,
)
DEFEND_THE_CENTER = Scenario(
    "defend_the_center.wad",
    actions.TURN_ATTACK_BUTTONS,
    ("AMMO2", "HEALTH"),
    death_penalty=1.0,
    timeout_frames=2100,
    start_frame=10,
)
DEFEND_THE_LINE = replace(DEFEND_THE_CENTER, wad="defend_the_line.wad", timeout_frames=0)
HEALTH_GATHERING = Scenario(
    "health_gathering.wad",
    actions.BASIC_BUTTONS,
    ("HEALTH",),
    living_reward=0.01,
    timeout_frames=2100,
    hud=False,
    weapon=False,
)
HEALTH_GATHERING_SUPREME = replace(HEALTH_GATHERING, wad="health_gathering_supreme.wad")
TWO_COLORS_EASY = replace(HEALTH_GATHERING, wad="two_colors_easy.wad")
TWO_COLORS_HARD = replace(HEALTH_GATHERING, wad="two_colors_hard.wad")
BATTLE = Scenario(
    "battle.wad",
    actions.NO_WEAPON_BUTTONS,
    BATTLE_VARIABLES,
    timeout_frames=2100,
    skill=2,
    crosshair=True,
)
BATTLE2 = replace(BATTLE, wad="battle2.wad")
BENCHMARK = replace(BATTLE, buttons=actions.BENCHMARK_BUTTONS)
DUEL = Scenario("ssl2.wad", actions.FULL_USE_BUTTONS, MATCH_VARIABLES, crosshair=True)
FREEDM = replace(DUEL, wad="freedm.wad")
DWANGO = replace(DUEL, wad="dwango5.wad", buttons=actions.FULL_BUTTONS)
DWANGO_MIXED = replace(DWANGO, buttons=actions.MIXED_BUTTONS)
CIG = replace(DWANGO_MIXED, wad="cig.wad")

_MEASUREMENTS: Wrapper = (Measurements, {})
_GATHERING: tuple[Wrapper, ...] = ((rewards.GatheringReward, {}),)
_BATTLE: tuple[Wrapper, ...] = (
    _MEASUREMENTS,
    (rewards.ShapedReward, {"scheme": rewards.fighting_bots(), "true_reward": rewards.unshaped_return}),
)
_AGAINST_BOTS: tuple[Wrapper, ...] = (
    _MEASUREMENTS,
    (rewards.ShapedReward, {"scheme": rewards.fighting_bots(), "true_reward": rewards.frags}),
)
_AGAINST_AGENTS: tuple[Wrapper, ...] = (
    _MEASUREMENTS,
    (rewards.ShapedReward, {"scheme": rewards.fighting_agents(), "true_reward": rewards.sole_winner}),
)


def _match(name: str, scenario: Scenario, action_space: spaces.Space[Any], **facts: Any) -> DoomSpec:
    return DoomSpec(name, scenario, action_space, default_timeout=UNLIMITED, **facts)


DOOM_SPECS: tuple[DoomSpec, ...] = (
    DoomSpec("doom_basic", BASIC, spaces.Discrete(4), reward_scaling=0.01, default_timeout=300),
    DoomSpec("doom_two_colors_easy", TWO_COLORS_EASY, actions.basic(), extra_wrappers=_GATHERING),
    DoomSpec("doom_two_colors_hard", TWO_COLORS_HARD, actions.basic(), extra_wrappers=_GATHERING),
    _match("doom_dm", CIG, actions.mixed(), num_agents=8, extra_wrappers=_AGAINST_AGENTS),
    _match("doom_dwango5", DWANGO_MIXED, actions.mixed(), num_agents=8, extra_wrappers=_AGAINST_AGENTS),
    DoomSpec("doom_my_way_home_flat_actions", MY_WAY_HOME, spaces.Discrete(5)),
    DoomSpec("doom_defend_the_center_flat_actions", DEFEND_THE_CENTER, spaces.Discrete(4)),
    DoomSpec("doom_my_way_home", MY_WAY_HOME, actions.basic()),
    DoomSpec("doom_deadly_corridor", DEADLY_CORRIDOR, actions.extended(), reward_scaling=0.01),
    DoomSpec("doom_defend_the_center", DEFEND_THE_CENTER, actions.turn_attack()),
    DoomSpec("doom_defend_the_line", DEFEND_THE_LINE, actions.turn_attack()),
    DoomSpec("doom_health_gathering", HEALTH_GATHERING, spaces.Discrete(5), extra_wrappers=_GATHERING),
    DoomSpec(
        "doom_health_gathering_supreme",
        HEALTH_GATHERING_SUPREME,
        spaces.Discrete(5),
        extra_wrappers=_GATHERING,
    ),
    DoomSpec(
        "doom_battle",
        BATTLE,
        actions.discretized_no_weapon(),
        default_timeout=2100,
        extra_wrappers=_BATTLE,
    ),
    DoomSpec(
        "doom_battle2",
        BATTLE2,
        actions.discretized_no_weapon(),
        default_timeout=2100,
        extra_wrappers=_BATTLE,
    ),
    _match(
        "doom_duel_bots",
        DUEL,
        actions.full_discretized(with_use=True),
        num_bots=1,
        respawn_delay=2,
        extra_wrappers=_AGAINST_BOTS,
    ),
    _match(
        "doom_deathmatch_bots",
        DWANGO,
        actions.full_discretized(),
        num_bots=7,
        extra_wrappers=_AGAINST_BOTS,
    ),
    _match(
        "doom_duel",
        DUEL,
        actions.full_discretized(with_use=True),
        num_agents=2,
        respawn_delay=2,
        extra_wrappers=_AGAINST_AGENTS,
    ),
    _match(
        "doom_deathmatch_full",
        FREEDM,
        actions.full_discretized(with_use=True),
        num_agents=4,
        num_bots=4,
        respawn_delay=2,
        extra_wrappers=_AGAINST_AGENTS,
    ),
    DoomSpec(
        "doom_benchmark",
        BENCHMARK,
        spaces.Discrete(9),
        default_timeout=2100,
        fallback=replace(BENCHMARK, wad="deathmatch.wad"),
    ),
)

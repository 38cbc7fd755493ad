"""Rewards beyond those the scenarios give: gathering health, fighting well, and what counts in the end.

Wrappers around `env.DoomEnv` that read game variables from `info`. `ShapedReward` implements
`contract.RewardShaping`, so population-based training may tune its scheme: `{"delta": {VARIABLE: (pay for a
unit of increase, for one of decrease)}, "selected_weapon": {SELECTEDk: pay for each step}}`.

Invariant: `true_reward` never contains shaping.
"""

from __future__ import annotations

import copy
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from sample_factory.envs.contract import TRUE_REWARD
from sample_factory.envs.doom.standings import standing_of
from sample_factory.envs.wrappers import EnvWrapper

log = logging.getLogger(__name__)

Scheme = dict[str, dict[str, Any]]
TrueReward = Callable[[Mapping[str, Any], float], float]  # (last info, un-shaped return) -> true reward

WEAPON_PREFERENCES = (1, 1, 1, 5, 5, 5, 10, 10)
MAX_INCREASE = {"DAMAGECOUNT": 200.0, "HITCOUNT": 5.0}
MIN_HEALTH = -30.0  # the engine reports minus a million for players crushed by an arrival
SAME_WEAPON_STEPS = 5
SUSPICIOUS_SHAPING = 2.5


def _scheme(delta: dict[str, tuple[float, float]]) -> Scheme:
    delta = dict(delta)
    for weapon, preference in enumerate(WEAPON_PREFERENCES):
        delta[f"WEAPON{weapon}"] = (0.02 * preference, -0.01 * preference)
        delta[f"AMMO{weapon}"] = (0.0002 * preference, -0.0001 * preference)
    selected = {f"SELECTED{weapon}": 0.0002 * p for weapon, p in enumerate(WEAPON_PREFERENCES)}
    return {"delta": delta, "selected_weapon": selected}


def fighting_bots() -> Scheme:
    """Rewards for battles against monsters and matches against bots."""
    return _scheme(
        {
            "FRAGCOUNT": (1.0, -1.5),
            "DEATHCOUNT": (-0.75, 0.75),
            "HITCOUNT": (0.01, -0.01),
            "DAMAGECOUNT": (0.003, -0.003),
            "HEALTH": (0.005, -0.003),
            "ARMOR": (0.005, -0.001),
        }
    )


def fighting_agents() -> Scheme:
    """Rewards for self-play."""
    return _scheme(
        {
            "FRAGCOUNT": (1.0, -0.001),
            "DEATHCOUNT": (-1.0, 1.0),
            "HITCOUNT": (0.0, 0.0),
            "DAMAGECOUNT": (0.01, -0.01),
            "HEALTH": (0.01, -0.01),
            "ARMOR": (0.005, -0.001),
        }
    )


def unshaped_return(info: Mapping[str, Any], episode_return: float) -> float:
    """What the scenario itself paid."""
    return episode_return


def frags(info: Mapping[str, Any], episode_return: float) -> float:
    """Opponents killed, less own accidents."""
    return float(info.get("FRAGCOUNT", 0.0))


def sole_winner(info: Mapping[str, Any], episode_return: float) -> float:
    """1 for the player who alone has most frags, else 0."""
    standing = standing_of(info)
    return float(standing.place == 1 and standing.leader_gap != 0)


class GatheringReward(EnvWrapper):
    """Pays 1 whenever health went up; the true reward is what the scenario paid."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        self._health: float | None = None
        self._return = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Starts an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._health, self._return = info.get("HEALTH"), 0.0
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps and pays for health found."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._return += float(reward)
        health = info.get("HEALTH")
        found = health is not None and self._health is not None and health > self._health
        self._health = health
        if terminated or truncated:
            info[TRUE_REWARD] = self._return
        return obs, float(reward) + float(found), terminated, truncated, info


class ShapedReward(EnvWrapper):
    """Pays for changes of game variables, and for keeping a good weapon in hand.

    Args:
        env: reports the variables in `info`.
        scheme: what is paid for what.
        true_reward: what the episode was really worth.
    """

    def __init__(self, env: gymnasium.Env, scheme: Scheme, true_reward: TrueReward = unshaped_return):
        super().__init__(env)
        self._default = copy.deepcopy(scheme)
        self._scheme = copy.deepcopy(scheme)
        self._true_reward = true_reward
        self._before: Mapping[str, Any] | None = None
        self._weapons: deque[int] = deque(maxlen=SAME_WEAPON_STEPS)
        self._return = 0.0
        self._warned = False

    def get_default_reward_shaping(self) -> Scheme:
        """The scheme the environment started with."""
        return copy.deepcopy(self._default)

    def get_current_reward_shaping(self, agent_index: int) -> Scheme:
        """The scheme in force."""
        return copy.deepcopy(self._scheme)

    def set_reward_shaping(self, reward_shaping: Scheme, agent_index: int) -> None:
        """Replaces the scheme from the next step on."""
        self._scheme = copy.deepcopy(reward_shaping)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Starts an episode; its first step is not shaped."""
        self._before, self._return, self._warned = None, 0.0, False
        self._weapons.clear()
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps and adds the shaping, except at the end of the episode and right after a respawn."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._return += float(reward)
        shaping = 0.0
        if terminated or truncated:
            info[TRUE_REWARD] = self._true_reward(info, self._return)
        else:
            shaping = self._shaping(info)
            self._before = info
            self._warn_about(shaping)
        return obs, float(reward) + shaping, terminated, truncated, info

    def _shaping(self, info: Mapping[str, Any]) -> float:
        self._weapons.append(int(max(0.0, info.get("SELECTED_WEAPON", 0.0))))
        before = self._before
        if before is None or (before.get("DEAD", 0.0) and not info.get("DEAD", 0.0)):
            return 0.0
        return delta_reward(self._scheme["delta"], before, info) + self._weapon_reward(info)

    def _weapon_reward(self, info: Mapping[str, Any]) -> float:
        settled = len(self._weapons) == SAME_WEAPON_STEPS and len(set(self._weapons)) == 1
        if not settled or info.get("SELECTED_WEAPON_AMMO", 0.0) <= 0:
            return 0.0
        return float(self._scheme["selected_weapon"].get(f"SELECTED{self._weapons[-1]}", 0.0))

    def _warn_about(self, shaping: float) -> None:
        if abs(shaping) > SUSPICIOUS_SHAPING and not self._warned:
            self._warned = True
            log.warning("A single step was paid %.2f for changes of game variables.", shaping)


def delta_reward(
    delta: Mapping[str, tuple[float, float]], before: Mapping[str, Any], now: Mapping[str, Any]
) -> float:
    """What the changes of all variables from one step to the next are worth."""
    total = 0.0
    for variable, (increase_pays, decrease_pays) in delta.items():
        if variable not in now:
            continue
        change = _value(variable, now) - _value(variable, before)
        if change > 0:
            total += min(change, MAX_INCREASE.get(variable, change)) * increase_pays
        elif change < 0:
            total += -change * decrease_pays
    return total


def _value(variable: str, info: Mapping[str, Any]) -> float:
    value = float(info[variable])
    return max(value, MIN_HEALTH) if variable == "HEALTH" else value

"""Drives any environment through its contract with random actions; every family's tests call `check_env`.

It makes, resets, steps and closes the environment, and asserts that nothing of it is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces

from sample_factory.config.config import Config
from sample_factory.config.parsing import parse_args
from sample_factory.envs.contract import EXTRA_STATS, IS_ACTIVE, NUM_FRAMES, TRUE_REWARD, EnvConfig
from sample_factory.envs.make import make_env
from sample_factory.envs.observations import dict_obs, observation_dict_space
from tests.envs.leftovers import nothing_left_behind

SEED = 1234


@dataclass
class Report:
    """What a check saw."""

    num_agents: int
    episodes: int = 0
    frames: int = 0
    rewards: list[float] = field(default_factory=list)
    observations: list[dict[str, np.ndarray]] = field(default_factory=list)  # of the first agent


def family_cfg(name: str, overrides: Mapping[str, Any] | None = None) -> Config:
    """The configuration an environment gets when only its name is typed, with some values replaced."""
    cfg = parse_args([f"--env={name}", "--algo=APPO", "--experiment=contract_check"])
    for key, value in (overrides or {}).items():
        setattr(cfg, key, value)
    return cfg


def check_env(
    name: str, cfg_overrides: Mapping[str, Any] | None = None, steps: int = 200, reproducible: bool = False
) -> Report:
    """Asserts that an environment keeps the contract, and says what happened.

    Args:
        name: full environment name.
        cfg_overrides: settings that differ from the family's defaults.
        steps: how many steps to take.
        reproducible: also assert that the same seed gives the same episode twice.
    """
    cfg = family_cfg(name, cfg_overrides)
    report = _run(name, cfg, steps)
    if reproducible:
        again = _run(name, cfg, steps)
        assert report.rewards == again.rewards, f"{name}: the same seed gave different rewards"
        for first, second in zip(report.observations, again.observations, strict=True):
            for key, value in first.items():
                np.testing.assert_array_equal(value, second[key], err_msg=f"{name}: {key} differs")
    return report


def _run(name: str, cfg: Config, steps: int) -> Report:
    with nothing_left_behind(name):
        env = make_env(name, cfg, EnvConfig(worker_index=0, vector_index=0, env_id=0))
        try:
            return _Walk(name, env).take(steps)
        finally:
            env.close()


class _Walk:
    """Steps one environment as the engine does: it resets single agents, several reset themselves."""

    def __init__(self, name: str, env: Any):
        self.name, self.env = name, env
        assert isinstance(env.num_agents, int), f"{name}: num_agents is {env.num_agents!r}"
        assert env.num_agents >= 1, f"{name}: num_agents is {env.num_agents!r}"
        assert isinstance(env.is_multiagent, bool), f"{name}: is_multiagent is {env.is_multiagent!r}"
        self.space = observation_dict_space(env)
        for key, space in self.space.spaces.items():
            assert isinstance(space, spaces.Box) and space.shape, f"{name}: {key} is {space}"
        self.report = Report(env.num_agents)

    def take(self, steps: int) -> Report:
        self.env.action_space.seed(SEED)
        self._reset(SEED)
        for _ in range(steps):
            if self._step() and not self.env.is_multiagent:
                self._reset(None)
        return self.report

    def _reset(self, seed: int | None) -> None:
        result = self.env.reset(seed=seed)
        assert isinstance(result, tuple) and len(result) == 2, f"{self.name}: reset returned {type(result)}"
        self._check_observations(result[0])

    def _step(self) -> bool:
        """One step of all agents; whether the first agent's episode ended."""
        actions = [self.env.action_space.sample() for _ in range(self.env.num_agents)]
        result = self.env.step(actions if self.env.is_multiagent else actions[0])
        assert len(result) == 5, f"{self.name}: step returned {len(result)} values"
        obs, *others = result
        self._check_observations(obs)
        per_agent = list(zip(*(self._listed(part) for part in others), strict=True))
        assert len(per_agent) == self.env.num_agents, f"{self.name}: results for {len(per_agent)} agents"
        for reward, terminated, truncated, info in per_agent:
            self._check_agent(reward, terminated, truncated, info)
        self.report.rewards.append(float(per_agent[0][0]))
        self.report.frames += per_agent[0][3].get(NUM_FRAMES, 1)
        ended = bool(per_agent[0][1] or per_agent[0][2])
        self.report.episodes += ended
        return ended

    def _listed(self, value: Any) -> list[Any]:
        return list(value) if self.env.is_multiagent else [value]

    def _check_observations(self, observations: Any) -> None:
        for obs in self._listed(observations):
            assert self.env.observation_space.contains(obs), f"{self.name}: {obs} not in its space"
            for key, value in dict_obs(self.env, obs).items():
                assert value.shape == self.space[key].shape, f"{self.name}: {key} has shape {value.shape}"
                assert np.all(np.isfinite(value)), f"{self.name}: {key} is not finite"
        first = dict_obs(self.env, self._listed(observations)[0])
        self.report.observations.append({key: np.array(value) for key, value in first.items()})

    def _check_agent(self, reward: Any, terminated: Any, truncated: Any, info: Any) -> None:
        assert np.isfinite(float(reward)), f"{self.name}: reward {reward!r}"
        for flag in (terminated, truncated):
            assert isinstance(flag, bool | np.bool_), f"{self.name}: {flag!r} is no bool"
        assert isinstance(info, Mapping), f"{self.name}: info is {type(info)}"
        frames = info.get(NUM_FRAMES, 1)
        assert int(frames) == frames and frames >= 0, f"{self.name}: {NUM_FRAMES} is {frames!r}"
        assert isinstance(info.get(IS_ACTIVE, True), bool | np.bool_)
        if terminated or truncated:
            assert np.isfinite(float(info.get(TRUE_REWARD, 0.0)))
            _check_numbers(self.name, info.get(EXTRA_STATS, {}))


def _check_numbers(name: str, stats: Mapping[str, Any]) -> None:
    for key, value in stats.items():
        if isinstance(value, Mapping):
            _check_numbers(name, value)
        else:
            assert isinstance(float(value), float), f"{name}: statistic {key} is {value!r}"

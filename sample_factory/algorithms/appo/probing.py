"""Finds out what a session needs to know about its environment and network, without keeping either.

Makes one environment and one network and throws them away. In parallel sessions this happens in a child
process, so that the main process needs neither torch nor the simulator.
"""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces

from sample_factory.algorithms.appo.moments import moments_layout
from sample_factory.algorithms.appo.probe import Probe, RoleProbe
from sample_factory.algorithms.appo.role_stores import check_roles, layout_for_all
from sample_factory.algorithms.appo.trajectories import TrajectoryLayout
from sample_factory.algorithms.appo.user_code import UserCode
from sample_factory.algorithms.appo.weights import WeightsLayout
from sample_factory.config.config import Config
from sample_factory.config.errors import ConfigError
from sample_factory.envs.contract import RewardShaping, agents_of, find_interface, is_multiagent
from sample_factory.envs.make import make_env
from sample_factory.envs.observations import observation_dict_space
from sample_factory.envs.roles import role_obs_space, role_prefix, roles_of
from sample_factory.envs.spaces import UnsupportedSpaceError
from sample_factory.model.actor_critic import make_actor_critic
from sample_factory.rl.action_spaces import action_heads, num_action_parameters, num_actions
from sample_factory.rl.image_layout import turned_shape


def probe(cfg: Config, user_code: UserCode) -> Probe:
    """Makes an environment and a network once and describes them."""
    user_code.restore()
    try:
        env = make_env(cfg.env, cfg, None)
    except UnsupportedSpaceError as error:
        raise ConfigError(str(error)) from error
    try:
        return _describe(cfg, env)
    finally:
        env.close()


def _describe(cfg: Config, env: Any) -> Probe:
    obs_space, num_agents = observation_dict_space(env), agents_of(env)
    found = roles_of(env)
    if found is None:
        roles: tuple[RoleProbe, ...] = (_describe_role(cfg, obs_space, env.action_space),)
    else:
        check_roles(cfg, found)
        roles = tuple(
            _describe_role(cfg, role_obs_space(obs_space, role), action_space, role_prefix(role))
            for role, action_space in enumerate(found.action_spaces)
        )
    shaping = find_interface(env, RewardShaping)
    return Probe(
        num_agents=num_agents,
        is_multiagent=is_multiagent(env),
        reward_shaping=shaping.get_default_reward_shaping() if shaping is not None else None,
        trajectories=layout_for_all(roles),
        roles=roles,
        agent_roles=found.of_agent if found is not None else (0,) * num_agents,
        num_gpus=torch.cuda.device_count() if torch.cuda.is_available() else 0,
    )


def _describe_role(
    cfg: Config, obs_space: spaces.Dict, action_space: spaces.Space[Any], obs_prefix: str = ""
) -> RoleProbe:
    _check_losses(cfg, action_space)
    model = make_actor_critic(cfg, obs_space, action_space)
    return RoleProbe(
        obs_space=obs_space,
        action_space=action_space,
        trajectories=TrajectoryLayout(
            rollout=cfg.rollout,
            observations={key: (s.shape or (), str(s.dtype)) for key, s in obs_space.spaces.items()}
            | {key: (turned_shape(obs_space[key].shape or ()), "uint8") for key in model.turned_images},
            num_actions=num_actions(action_space),
            num_action_parameters=num_action_parameters(action_space),
            rnn_state_size=model.rnn_state_size,
            turned=model.turned_images,
        ),
        weights=WeightsLayout(
            {
                name: (tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
                for name, tensor in model.state_dict().items()
            },
            moments_layout(model),
        ),
        obs_prefix=obs_prefix,
        num_parameters=sum(p.numel() for p in model.parameters()),
    )


def _check_losses(cfg: Config, action_space: spaces.Space[Any]) -> None:
    continuous = any(head.kind == "gaussian" for head in action_heads(action_space))
    if continuous and cfg.exploration_loss == "symmetric_kl":
        raise ConfigError(
            f"--exploration_loss=symmetric_kl needs discrete actions, but --env={cfg.env} acts with "
            f"{action_space}; use --exploration_loss=entropy."
        )

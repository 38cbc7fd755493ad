"""Who plays: a policy loaded from an experiment's checkpoint, or chance.

`evaluate` and `enjoy_appo` ask a `Player` for actions and tell it when episodes end. Agents are numbered by
the caller; a player keeps one recurrent state for each.

Invariant: a player starts every episode without memory of earlier ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces

from sample_factory.config.config import Config
from sample_factory.envs.contract import ACTION_MASK
from sample_factory.envs.observations import observation_dict_space
from sample_factory.envs.roles import Roles, role_obs_space, role_observation, roles_of
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.source import find_checkpoint
from sample_factory.evaluation.stage import Observation, env_seed
from sample_factory.model.actor_critic import ActorCritic, make_actor_critic
from sample_factory.model.checkpoints import Checkpoint
from sample_factory.rl.action_spaces import num_action_parameters, to_env_actions
from sample_factory.rl.distributions import make_distribution


class Player(Protocol):
    """Something that chooses actions."""

    def begin(self, num_agents: int) -> None:
        """Prepares for agents 0 to `num_agents - 1`, all at the start of an episode."""

    def act(self, observations: Sequence[Observation], agents: Sequence[int]) -> Sequence[Any]:
        """Actions as `env.step` takes them, for the observations of these agents."""

    def forget(self, agent: int) -> None:
        """An agent's episode has ended."""


class TrainedPlayer:
    """A network that acts.

    Args:
        model: with trained weights, on the device it runs on.
        deterministic: take the most likely action instead of sampling.
        seed: of the sampling; None draws one.
    """

    def __init__(self, model: ActorCritic, *, deterministic: bool = False, seed: int | None = None) -> None:
        self._model = model.eval()
        self._deterministic = deterministic
        self._device = next(model.parameters()).device
        self._generator = torch.Generator(self._device)
        if seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(seed)
        self.begin(1)

    def begin(self, num_agents: int) -> None:
        """See `Player`."""
        self._states = torch.zeros(num_agents, self._model.rnn_state_size, device=self._device)

    @torch.no_grad()
    def act(self, observations: Sequence[Observation], agents: Sequence[int]) -> Sequence[Any]:
        """See `Player`."""
        obs = {
            key: torch.from_numpy(np.stack([observation[key] for observation in observations])).to(
                self._device
            )
            for key in observations[0]
        }
        rows = torch.as_tensor(agents, device=self._device)
        output = self._model.act(obs, self._states[rows])
        self._states[rows] = output.rnn_states
        distribution = self._model.action_distribution(output.action_params, obs)
        actions = distribution.mode() if self._deterministic else distribution.sample(self._generator)
        return list(to_env_actions(self._model.action_space, actions.cpu().numpy()))

    def forget(self, agent: int) -> None:
        """See `Player`."""
        self._states[agent] = 0.0


class RolePlayer:
    """A player for each role of environments whose agents differ.

    Args:
        roles: of the agents of one environment; the agents of the next one are numbered on.
        players: one for each role.
    """

    def __init__(self, roles: Roles, players: Sequence[Player]) -> None:
        self._of_agent = roles.of_agent
        self._players = players

    def begin(self, num_agents: int) -> None:
        """See `Player`."""
        for player in self._players:
            player.begin(num_agents)

    def act(self, observations: Sequence[Observation], agents: Sequence[int]) -> Sequence[Any]:
        """See `Player`."""
        actions: list[Any] = [None] * len(agents)
        for role, player in enumerate(self._players):
            places = [place for place, agent in enumerate(agents) if self._role_of(agent) == role]
            if places:
                seen = [role_observation(observations[place], role) for place in places]
                chosen = player.act(seen, [agents[place] for place in places])
                for place, action in zip(places, chosen, strict=True):
                    actions[place] = action
        return actions

    def forget(self, agent: int) -> None:
        """See `Player`."""
        self._players[self._role_of(agent)].forget(agent)

    def _role_of(self, agent: int) -> int:
        return self._of_agent[agent % len(self._of_agent)]


class RandomPlayer:
    """Chance: every allowed action is equally likely. What a trained policy has to beat."""

    def __init__(self, action_space: spaces.Space[Any], seed: int = 0) -> None:
        self._space = action_space
        self._space.seed(seed)
        self._generator = torch.Generator().manual_seed(seed)

    def begin(self, num_agents: int) -> None:
        """See `Player`."""

    def act(self, observations: Sequence[Observation], agents: Sequence[int]) -> Sequence[Any]:
        """See `Player`."""
        if ACTION_MASK not in observations[0]:
            return [self._space.sample() for _ in agents]
        masks = torch.from_numpy(np.stack([observation[ACTION_MASK] for observation in observations]))
        # Equal logits are equal probabilities; the mask removes what is forbidden.
        logits = torch.zeros(len(agents), num_action_parameters(self._space))
        actions = make_distribution(self._space, logits, masks).sample(self._generator)
        return list(to_env_actions(self._space, actions.numpy()))

    def forget(self, agent: int) -> None:
        """See `Player`."""


def random_player(env: Any, seed: int = 0) -> Player:
    """Chance, for every agent of an environment."""
    roles = roles_of(env)
    if roles is None:
        return RandomPlayer(env.action_space, seed)
    return RolePlayer(roles, [RandomPlayer(space, seed) for space in roles.action_spaces])


def load_player(cfg: Config, env: Any, seed: int | None = None) -> Player:
    """The policy `--policy_index` of an experiment, as `--iter_num` and the `--eval_*` flags say.

    Where agents differ, the other roles are played by the policies of its team, as they are now.

    Args:
        cfg: with the experiment's saved values.
        env: an environment to take the spaces from.
        seed: of the sampling of actions; None draws one.

    Raises:
        EvaluationError: there is no checkpoint, or it does not fit the network.
        CheckpointError: there are checkpoints, but none can be loaded.
    """
    roles, obs_space = roles_of(env), observation_dict_space(env)
    if roles is None:
        return _load_trained(cfg, obs_space, env.action_space, seed)
    chosen = cfg.get("policy_index", 0)
    players = []
    for role, action_space in enumerate(roles.action_spaces):
        policy_index = chosen - chosen % roles.count + role
        wanted = cfg if policy_index == chosen else _latest_of(cfg, policy_index)
        role_seed = None if seed is None else env_seed(seed, role)
        players.append(_load_trained(wanted, role_obs_space(obs_space, role), action_space, role_seed))
    return RolePlayer(roles, players)


def _latest_of(cfg: Config, policy_index: int) -> Config:
    choice = {"policy_index": policy_index, "iter_num": "latest", "model_path": None}
    return Config.from_dict(cfg.to_dict() | choice)


def _load_trained(
    cfg: Config, obs_space: spaces.Dict, action_space: spaces.Space[Any], seed: int | None
) -> TrainedPlayer:
    model = load_model(cfg, find_checkpoint(cfg), obs_space, action_space)
    use_gpu = cfg.get("device", "cpu") == "gpu" and torch.cuda.is_available()
    model.to(torch.device("cuda" if use_gpu else "cpu"))
    return TrainedPlayer(model, deterministic=is_deterministic(cfg, action_space), seed=seed)


def load_model(
    cfg: Config, checkpoint: Checkpoint, obs_space: spaces.Dict, action_space: spaces.Space[Any]
) -> ActorCritic:
    """The network of a checkpoint, on the CPU. Torch's random numbers are left as they are.

    Raises:
        EvaluationError: the checkpoint does not fit the network that the settings describe.
    """
    with torch.random.fork_rng(devices=()):
        model = make_actor_critic(cfg, obs_space, action_space)
    try:
        model.load_state_dict(checkpoint.state["model"])
    except RuntimeError as error:
        raise EvaluationError(
            f"{checkpoint.path} does not fit the network; leave out flags that change it, such as "
            f"--hidden_size or --encoder_type ({str(error).splitlines()[-1].strip()})."
        ) from error
    return model


def is_deterministic(cfg: Config, action_space: spaces.Space[Any]) -> bool:
    """Whether `--eval_deterministic` or `--continuous_actions_sample` ask for the most likely action."""
    takes_mean = isinstance(action_space, spaces.Box) and not cfg.get("continuous_actions_sample", True)
    return bool(cfg.get("eval_deterministic", False)) or takes_mean

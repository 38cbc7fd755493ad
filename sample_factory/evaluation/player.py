"""Who plays: a policy loaded from an experiment's checkpoint, or chance.

`evaluate` and `enjoy_appo` ask a `Player` for actions and tell it when episodes end. Agents are numbered by
the caller; a player keeps one recurrent state for each.

Invariant: a player starts every episode without memory of earlier ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from gymnasium import spaces

from sample_factory.envs.contract import ACTION_MASK
from sample_factory.envs.observations import observation_dict_space
from sample_factory.evaluation.errors import EvaluationError
from sample_factory.evaluation.source import find_checkpoint
from sample_factory.evaluation.stage import Observation
from sample_factory.model.actor_critic import ActorCritic, make_actor_critic
from sample_factory.model.checkpoints import Checkpoint
from sample_factory.rl.action_spaces import num_action_parameters, to_env_actions
from sample_factory.rl.distributions import make_distribution

if TYPE_CHECKING:
    from sample_factory.config.config import Config


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


def load_player(cfg: Config, env: Any, seed: int | None = None) -> TrainedPlayer:
    """The policy `--policy_index` of an experiment, as `--iter_num` and the `--eval_*` flags say.

    Args:
        cfg: with the experiment's saved values.
        env: an environment to take the spaces from.
        seed: of the sampling of actions; None draws one.

    Raises:
        EvaluationError: there is no checkpoint, or it does not fit the network.
        CheckpointError: there are checkpoints, but none can be loaded.
    """
    checkpoint = find_checkpoint(cfg)
    model = load_model(cfg, checkpoint, observation_dict_space(env), env.action_space)
    use_gpu = cfg.get("device", "cpu") == "gpu" and torch.cuda.is_available()
    model.to(torch.device("cuda" if use_gpu else "cpu"))
    return TrainedPlayer(model, deterministic=is_deterministic(cfg, env.action_space), seed=seed)


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

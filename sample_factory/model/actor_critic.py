"""The network: observations to action parameters and values, with memory.

Policy workers call `act`, one step for a batch of agents; learners call `evaluate` on whole trajectories;
both compute the same function. Built by `make_actor_critic` from settings and spaces, in every process that
needs one. Invariant: `act` gives values in the units of the rewards, `evaluate` in normalised units (the same
thing unless `--normalize_returns=True`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from gymnasium import spaces
from torch import Tensor, nn

from sample_factory.model.cores import make_core
from sample_factory.model.encoders import make_encoder
from sample_factory.model.heads import ActionHead
from sample_factory.model.layers import initialize_weights
from sample_factory.model.mlp import Mlp, linear_side_by_side
from sample_factory.model.observations import ACTION_MASK_KEY, ObservationPreparation
from sample_factory.rl.distributions import ActionDistribution, make_distribution
from sample_factory.rl.normalisation import RunningMeanStd

if TYPE_CHECKING:
    from sample_factory.config.config import Config


IMAGE_MICRO_BATCH_SIZE = 256


class PolicyOutput(NamedTuple):
    """What acting needs."""

    action_params: Tensor  # [B, K]
    values: Tensor  # [B], in the units of the rewards
    rnn_states: Tensor  # [B, S], after this step


class EvaluateOutput(NamedTuple):
    """What training needs; the last two are the actor's when actor and critic are separate."""

    action_params: Tensor  # [N, T', K]
    values: Tensor  # [N, T'], normalised
    core_outputs: Tensor  # [N, T', core_out_size]
    encodings: Tensor  # [N, T', encoder_out_size]


class Trunk(nn.Module):
    """Encoder, core and decoder: everything below the heads."""

    def __init__(self, cfg: Config, obs_space: spaces.Dict) -> None:
        super().__init__()
        self.encoder = make_encoder(cfg, obs_space)
        self.core = make_core(cfg, self.encoder.encoder_out_size)
        layers = cfg.decoder_mlp_layers
        self.decoder = Mlp(cfg, self.core.out_size, layers) if layers else None
        self.out_size = layers[-1] if layers else self.core.out_size

    def step(self, obs: dict[str, Tensor], state: Tensor) -> tuple[Tensor, Tensor]:
        """Features `[B, out_size]` and the next state, for prepared observations `[B, ...]`."""
        outputs, next_state = self.core.forward_step(self.encoder(obs), state)
        return outputs if self.decoder is None else self.decoder(outputs), next_state

    def sequences(self, encodings: Tensor, state: Tensor, dones: Tensor) -> tuple[Tensor, Tensor]:
        """Features and core outputs `[N, T', ...]` for encodings `[N, T', ...]`."""
        core_outputs = self.core.forward_sequences(encodings, state, dones)
        return core_outputs if self.decoder is None else self.decoder(core_outputs), core_outputs


class ActorCritic(nn.Module):
    """Policy and value function.

    Attributes:
        action_space: of one agent.
        rnn_state_size: length of an agent's state; 1 without recurrence.
        core_out_size: length of `EvaluateOutput.core_outputs`.
        encoder_out_size: length of `EvaluateOutput.encodings`.
        returns_normalizer: statistics of returns; None unless `--normalize_returns=True`.
    """

    rnn_state_size: int

    def __init__(self, cfg: Config, obs_space: spaces.Dict, action_space: spaces.Space) -> None:
        super().__init__()
        self.action_space = action_space
        self.actor = Trunk(cfg, obs_space)
        self.observations = ObservationPreparation(cfg, obs_space, self.actor.encoder.byte_images)
        self.returns_normalizer = RunningMeanStd(()) if cfg.normalize_returns else None
        self.action_head = ActionHead(cfg, self.actor.out_size, action_space)
        self.value_head = nn.Linear(self.actor.out_size, 1)
        self._micro_batch_size = cfg.micro_batch_size or _default_micro_batch_size(obs_space)
        self._is_compiled = False
        self.core_out_size = self.actor.core.out_size
        self.encoder_out_size = self.actor.encoder.encoder_out_size

    @property
    def turned_images(self) -> frozenset[str]:
        """Keys of images that are best stored with their channels last; `act` and `evaluate` take both."""
        return self.observations.turned_images

    @property
    def obs_normalizers(self) -> dict[str, RunningMeanStd]:
        """Statistics of each normalised observation key; empty unless `--normalize_input=True`."""
        return self.observations.normalizers

    def update_obs_normalizers(self, obs: dict[str, Tensor], valids: Tensor | None = None) -> None:
        """Takes raw observations `[B, ...]` or `[N, T, ...]` into the statistics, the valid ones if told."""
        self.observations.update_normalizers(obs, valids)

    def compile_encoders(self) -> None:
        """Lets torch.compile build the encoders when they are first used; names of weights stay the same."""
        self._is_compiled = True
        for module in self.modules():
            if isinstance(module, Trunk):
                module.encoder.compile(dynamic=False)

    def action_distribution(self, params: Tensor, obs: dict[str, Tensor]) -> ActionDistribution:
        """The distribution over actions, without those that the observation "action_mask" forbids."""
        return make_distribution(self.action_space, params, obs.get(ACTION_MASK_KEY))

    def act(self, obs: dict[str, Tensor], rnn_states: Tensor) -> PolicyOutput:
        """One step for observations `[B, ...]` of any dtype and states `[B, S]`."""
        actor_features, critic_features, next_states = self._step(self.observations(obs), rnn_states)
        values = self.value_head(critic_features).squeeze(-1)
        if self.returns_normalizer is not None:
            values = self.returns_normalizer.denormalize(values)
        return PolicyOutput(self.action_head(actor_features), values, next_states)

    def evaluate(self, obs: dict[str, Tensor], rnn_states: Tensor, dones: Tensor) -> EvaluateOutput:
        """Whole trajectories.

        Args:
            obs: `[N, T', ...]` of any dtype; T' is T, or T + 1 with the observation after the last step.
            rnn_states: before the first step, `[N, S]`.
            dones: boolean `[N, T]`; the row after a done starts from a zero state.
        """
        rows = {key: value.flatten(0, 1) for key, value in obs.items() if key != ACTION_MASK_KEY}
        return self._sequences(rows, rnn_states, dones)

    def _encode(self, rows: dict[str, Tensor], num_trajectories: int, *trunks: Trunk) -> list[Tensor]:
        """Each trunk's encodings `[N, T', ...]` of raw observations `[N * T', ...]`.

        On a CPU in pieces that fit into its cache, which gives the same numbers sooner.
        """
        some = next(iter(rows.values()))
        size = len(some)
        is_cut_below = not self._is_compiled and all(trunk.encoder.works_in_pieces for trunk in trunks)
        is_cut = self._micro_batch_size and some.device.type == "cpu" and not is_cut_below
        step = self._micro_batch_size if is_cut else size
        pieces: list[list[Tensor]] = [[] for _ in trunks]
        for start in range(0, size, step):
            prepared = self.observations({key: value[start : start + step] for key, value in rows.items()})
            for trunk, outputs in zip(trunks, pieces, strict=True):
                outputs.append(trunk.encoder(prepared))
        return [torch.cat(outputs).unflatten(0, (num_trajectories, -1)) for outputs in pieces]

    def _step(self, obs: dict[str, Tensor], states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features for the actor, features for the critic, next states."""
        raise NotImplementedError

    def _sequences(self, rows: dict[str, Tensor], states: Tensor, dones: Tensor) -> EvaluateOutput:
        """Everything training needs, for raw observations `[N * T', ...]`."""
        raise NotImplementedError


class SharedActorCritic(ActorCritic):
    """Actor and critic are two heads of one trunk."""

    def __init__(self, cfg: Config, obs_space: spaces.Dict, action_space: spaces.Space) -> None:
        super().__init__(cfg, obs_space, action_space)
        self.rnn_state_size = self.actor.core.state_size
        initialize_weights(self, cfg)

    def _step(self, obs: dict[str, Tensor], states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features, next_states = self.actor.step(obs, states)
        return features, features, next_states

    def _sequences(self, rows: dict[str, Tensor], states: Tensor, dones: Tensor) -> EvaluateOutput:
        (encodings,) = self._encode(rows, len(dones), self.actor)
        features, core_outputs = self.actor.sequences(encodings, states, dones)
        params, values = linear_side_by_side(features, self.action_head.linear, self.value_head)
        params = self.action_head.complete(params)
        return EvaluateOutput(params, values.squeeze(-1), core_outputs, encodings)


class SeparateActorCritic(ActorCritic):
    """Actor and critic have a trunk each and share no weights; states are `[actor | critic]`."""

    def __init__(self, cfg: Config, obs_space: spaces.Dict, action_space: spaces.Space) -> None:
        super().__init__(cfg, obs_space, action_space)
        self.critic = Trunk(cfg, obs_space)
        self._has_memory = cfg.use_rnn
        self.rnn_state_size = self.actor.core.state_size * (2 if cfg.use_rnn else 1)
        initialize_weights(self, cfg)

    def _step(self, obs: dict[str, Tensor], states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        actor_states, critic_states = self._halves(states)
        actor_features, actor_states = self.actor.step(obs, actor_states)
        critic_features, critic_states = self.critic.step(obs, critic_states)
        if self._has_memory:
            states = torch.cat((actor_states, critic_states), dim=1)
        return actor_features, critic_features, states

    def _sequences(self, rows: dict[str, Tensor], states: Tensor, dones: Tensor) -> EvaluateOutput:
        actor_states, critic_states = self._halves(states)
        encodings, critic_encodings = self._encode(rows, len(dones), self.actor, self.critic)
        features, core_outputs = self.actor.sequences(encodings, actor_states, dones)
        critic_features, _ = self.critic.sequences(critic_encodings, critic_states, dones)
        values = self.value_head(critic_features).squeeze(-1)
        return EvaluateOutput(self.action_head(features), values, core_outputs, encodings)

    def _halves(self, states: Tensor) -> tuple[Tensor, ...]:
        return states.chunk(2, dim=1) if self._has_memory else (states, states)


def _default_micro_batch_size(obs_space: spaces.Dict) -> int:
    """256 where there are images, 0 (no limit) elsewhere."""
    has_images = any(len(space.shape or ()) == 3 for space in obs_space.spaces.values())
    return IMAGE_MICRO_BATCH_SIZE if has_images else 0


def make_actor_critic(cfg: Config, obs_space: spaces.Dict, action_space: spaces.Space) -> ActorCritic:
    """The network the settings ask for, freshly initialised from torch's random numbers.

    Raises:
        ConfigError: settings that do not fit the spaces or each other.
    """
    kind = SharedActorCritic if cfg.actor_critic_share_weights else SeparateActorCritic
    return kind(cfg, obs_space, action_space)

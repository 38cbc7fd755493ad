"""Weights start as `--policy_initialization` and `--policy_init_gain` say, in every layer."""

from __future__ import annotations

import pytest
import torch
from gymnasium import spaces
from torch import nn

from sample_factory.config.errors import ConfigError
from sample_factory.model.actor_critic import ActorCritic, make_actor_critic
from sample_factory.model.layers import initialize_weights


@pytest.fixture
def make_model(make_cfg, image_space):
    def make(**changes) -> ActorCritic:
        cfg = make_cfg(**{"hidden_size": 64, **changes})
        return make_actor_critic(cfg, spaces.Dict(obs=image_space(3, 36, 36)), spaces.Discrete(5))

    return make


def _weight_layers(model: nn.Module) -> list[nn.Linear | nn.Conv2d]:
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    assert {type(layer) for layer in layers} == {nn.Linear, nn.Conv2d}
    return layers


def test_orthogonal_weights_have_the_gain_as_their_only_singular_value(make_model):
    for layer in _weight_layers(make_model(policy_init_gain=1.7)):
        singular_values = torch.linalg.svdvals(layer.weight.flatten(1))
        torch.testing.assert_close(singular_values, torch.full_like(singular_values, 1.7), atol=1e-4, rtol=0)


def test_xavier_weights_are_uniform_within_their_bound(make_model):
    layer = _weight_layers(make_model(policy_initialization="xavier_uniform", policy_init_gain=2.0))[-3]
    bound = 2.0 * (6 / (layer.in_features + layer.out_features)) ** 0.5
    assert layer.weight.abs().max() <= bound
    assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)


def test_torch_default_keeps_the_weights(make_model):
    layer = _weight_layers(make_model(policy_initialization="torch_default"))[-3]
    bound = layer.in_features**-0.5
    assert layer.weight.abs().max() <= bound
    assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)


@pytest.mark.parametrize("kind", ["orthogonal", "xavier_uniform", "torch_default"])
def test_biases_start_at_zero(make_model, kind):
    assert all(not layer.bias.any() for layer in _weight_layers(make_model(policy_initialization=kind)))


def test_recurrent_layers_keep_their_defaults(make_cfg):
    torch.manual_seed(3)
    gru = nn.GRU(4, 4)
    before = [p.clone() for p in gru.parameters()]
    initialize_weights(gru, make_cfg())
    assert all(torch.equal(a, b) for a, b in zip(before, gru.parameters(), strict=True))


def test_separate_networks_start_from_different_weights(make_model):
    model = make_model(actor_critic_share_weights=False)
    actor, critic = model.actor.encoder.state_dict(), model.critic.encoder.state_dict()
    assert not torch.equal(actor["fully_connected.0.weight"], critic["fully_connected.0.weight"])


def test_the_same_seed_gives_the_same_network(make_model):
    states = []
    for _ in range(2):
        torch.manual_seed(5)
        states.append(make_model().state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_an_unknown_initialisation_is_refused_with_the_known_ones(make_model):
    with pytest.raises(ConfigError, match="use one of orthogonal, xavier_uniform, torch_default"):
        make_model(policy_initialization="zeros")

"""A network gives the same numbers for images as environments give them and as the store keeps them."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_factory.model.actor_critic import make_actor_critic
from sample_factory.model.layers import arrange_for_acting

N, T = 3, 4
PICTURES = spaces.Dict(obs=spaces.Box(0, 255, (3, 36, 44), np.uint8))
WITH_MAP = spaces.Dict({**PICTURES.spaces, "map": spaces.Box(0, 255, (2, 36, 36), np.uint8)})
CASES = {
    "convolutions": (PICTURES, {}),
    "in atari's order": (PICTURES, {"encoder_subtype": "convnet_atari", "nonlinearity": "relu"}),
    "residual": (PICTURES, {"encoder_type": "resnet", "encoder_subtype": "resnet_impala"}),
    "two pictures": (WITH_MAP, {}),
    "separate critic": (PICTURES, {"actor_critic_share_weights": False}),
    "centred": (PICTURES, {"obs_subtract_mean": 100.0}),
    "normalised": (PICTURES, {"normalize_input": True}),
}


@pytest.fixture(params=list(CASES))
def case(request, make_cfg):
    """A network, and trajectories of observations as environments give them."""
    obs_space, changes = CASES[request.param]
    cfg = make_cfg(hidden_size=16, obs_scale=255.0, use_rnn=False, device="cpu", **changes)
    model = make_actor_critic(cfg, obs_space, spaces.Discrete(3))
    obs = {
        key: torch.randint(0, 256, (N, T, *space.shape), dtype=torch.uint8)
        for key, space in obs_space.spaces.items()
    }
    if cfg.normalize_input:
        model.update_obs_normalizers(obs)
    return model, obs


def turned(model, obs):
    assert model.turned_images == set(obs)
    return {key: value.movedim(-3, -1).contiguous() for key, value in obs.items()}


def evaluate(model, obs):
    model.zero_grad()
    output = model.evaluate(obs, torch.zeros(N, 1), torch.zeros(N, T, dtype=torch.bool))
    (output.action_params.square().sum() + output.values.square().sum()).backward()
    return output.action_params, output.values, {name: p.grad for name, p in model.named_parameters()}


def test_acting_and_training_do_not_see_the_difference(case):
    model, obs = case
    stored = turned(model, obs)
    with torch.no_grad():
        step = model.act({key: value[:, 0] for key, value in obs.items()}, torch.zeros(N, 1))
        from_store = model.act({key: value[:, 0] for key, value in stored.items()}, torch.zeros(N, 1))
    torch.testing.assert_close(step.action_params, from_store.action_params)
    torch.testing.assert_close(step.values, from_store.values)
    params, values, gradients = evaluate(model, obs)
    stored_params, stored_values, stored_gradients = evaluate(model, stored)
    torch.testing.assert_close(params, stored_params)
    torch.testing.assert_close(values, stored_values)
    torch.testing.assert_close(gradients, stored_gradients)
    torch.testing.assert_close(params[:, 0], step.action_params, rtol=1e-4, atol=1e-5)


def test_stored_images_add_the_same_to_the_statistics(make_cfg):
    cfg = make_cfg(hidden_size=16, obs_scale=255.0, use_rnn=False, device="cpu", normalize_input=True)
    one = make_actor_critic(cfg, PICTURES, spaces.Discrete(3))
    other = copy.deepcopy(one)
    obs = {"obs": torch.randint(0, 256, (N, T, 3, 36, 44), dtype=torch.uint8)}
    valids = torch.rand(N, T) > 0.5
    one.update_obs_normalizers(obs, valids)
    other.update_obs_normalizers(turned(other, obs), valids)
    torch.testing.assert_close(one.obs_normalizers["obs"].mean, other.obs_normalizers["obs"].mean)
    torch.testing.assert_close(one.obs_normalizers["obs"].var, other.obs_normalizers["obs"].var)


@pytest.mark.parametrize(
    ("space", "changes"),
    [
        (spaces.Box(0, 255, (36, 44, 3), np.uint8), {"pixel_format": "HWC"}),
        (spaces.Box(0, 255, (3, 36, 44), np.uint8), {"memory_format": "contiguous"}),
        (spaces.Box(0, 1, (3, 36, 44), np.float32), {}),
        (spaces.Box(0, 255, (36, 36, 36), np.uint8), {}),
        (spaces.Box(0, 255, (36,), np.uint8), {"encoder_type": "mlp"}),
    ],
    ids=["channels last already", "another order asked for", "floats", "a cube", "no image"],
)
def test_other_observations_are_stored_as_they_are(make_cfg, space, changes):
    cfg = make_cfg(hidden_size=16, use_rnn=False, device="cpu", **changes)
    model = make_actor_critic(cfg, spaces.Dict(obs=space), spaces.Discrete(3))
    assert model.turned_images == frozenset()


def test_weights_arranged_for_acting_are_the_same_weights(make_cfg):
    cfg = make_cfg(hidden_size=512, obs_scale=255.0, use_rnn=False, device="cpu")
    model = make_actor_critic(
        cfg, spaces.Dict(obs=spaces.Box(0, 255, (3, 72, 128), np.uint8)), spaces.Discrete(3)
    )
    arranged = copy.deepcopy(model)
    arrange_for_acting(arranged)
    wide = arranged.actor.encoder.fully_connected[0].weight
    assert wide.T.is_contiguous() and not wide.is_contiguous()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), arranged.parameters(), strict=True))
    obs = {"obs": torch.randint(0, 256, (5, 3, 72, 128), dtype=torch.uint8)}
    with torch.no_grad():
        expected, found = model.act(obs, torch.zeros(5, 1)), arranged.act(obs, torch.zeros(5, 1))
    torch.testing.assert_close(found.action_params, expected.action_params, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.values, expected.values, rtol=1e-4, atol=1e-5)

"""Acting in numpy is the same function as acting in torch."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_factory.model.actor_critic import make_actor_critic
from sample_factory.model.numpy_policy import NumpyPolicy

VECTOR = spaces.Dict({"obs": spaces.Box(-np.inf, np.inf, (5,), np.float32)})
DISCRETE = spaces.Discrete(3)
NUMBERS = spaces.Box(-1, 1, (2,), np.float32)
PLAIN = {"use_rnn": False, "hidden_size": 16}
VARIANTS = [
    {},
    {"nonlinearity": "tanh"},
    {"nonlinearity": "relu"},
    {"normalize_input": True, "normalize_returns": True},
    {"obs_subtract_mean": 0.5, "obs_scale": 3.0},
    {"decoder_mlp_layers": [8]},
    {"encoder_mlp_layers": [32, 8]},
]


def make_model(make_cfg, action_space, **changes):
    model = make_actor_critic(make_cfg(**PLAIN, **changes), VECTOR, action_space)
    for _ in range(3):  # statistics other than their initial values
        if model.obs_normalizers:
            model.update_obs_normalizers({"obs": 4 * torch.randn(50, 5) + 2})
        if model.returns_normalizer is not None:
            model.returns_normalizer.update(10 * torch.randn(50) - 3)
    return model


def parts_of(outputs, action_space):
    sizes = [1, 3, 1, 1] if action_space is DISCRETE else [2, 4, 1, 1]
    return torch.from_numpy(outputs).split(sizes, dim=1)


@pytest.mark.parametrize("action_space", [DISCRETE, NUMBERS], ids=["discrete", "numbers"])
@pytest.mark.parametrize("changes", [*VARIANTS, {"adaptive_stddev": False}], ids=str)
def test_parameters_values_and_log_probabilities_equal_those_of_torch(make_cfg, action_space, changes):
    model = make_model(make_cfg, action_space, **changes)
    assert NumpyPolicy.fits(model, VECTOR)
    obs = 3 * torch.randn(40, 5)
    outputs = NumpyPolicy(model, seed=0).act(obs.numpy())
    assert outputs.dtype == np.float32
    actions, params, log_probs, values = parts_of(outputs, action_space)
    with torch.no_grad():
        expected = model.act({"obs": obs}, torch.zeros(40, 1))
        distribution = model.action_distribution(expected.action_params, {"obs": obs})
    torch.testing.assert_close(params, expected.action_params, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(values[:, 0], expected.values, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(log_probs[:, 0], distribution.log_prob(actions), rtol=1e-4, atol=1e-4)


def test_choices_come_as_often_as_their_probabilities_say(make_cfg):
    model = make_model(make_cfg, DISCRETE)
    obs = np.repeat(np.random.default_rng(0).normal(size=(1, 5)).astype(np.float32), 20_000, axis=0)
    actions, params, _, _ = parts_of(NumpyPolicy(model, seed=1).act(obs), DISCRETE)
    frequencies = torch.bincount(actions[:, 0].long(), minlength=3) / len(obs)
    torch.testing.assert_close(frequencies, params[0].softmax(0), rtol=0, atol=0.02)


def test_new_weights_are_seen_after_a_refresh(make_cfg):
    model = make_model(make_cfg, DISCRETE, normalize_input=True)
    policy = NumpyPolicy(model, seed=0)
    other = make_model(make_cfg, DISCRETE, normalize_input=True)
    with torch.no_grad():
        for mine, theirs in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
            mine.copy_(theirs)
    policy.refresh()
    obs = torch.randn(4, 5)
    with torch.no_grad():
        expected = other.act({"obs": obs}, torch.zeros(4, 1)).action_params
    torch.testing.assert_close(
        torch.from_numpy(policy.network.forward(obs.numpy())[0]), expected, rtol=1e-4, atol=1e-5
    )


def test_the_same_seed_gives_the_same_actions_and_so_does_a_saved_state(make_cfg):
    model = make_model(make_cfg, DISCRETE)
    obs = np.random.default_rng(0).normal(size=(64, 5)).astype(np.float32)
    first, second = NumpyPolicy(model, seed=7), NumpyPolicy(model, seed=7)
    assert np.array_equal(first.act(obs), second.act(obs))
    state = first.sampler.state_dict()
    later = first.act(obs)
    second.sampler.load_state_dict(state)
    assert np.array_equal(second.act(obs), later)


@pytest.mark.parametrize(
    ("changes", "obs_space", "action_space"),
    [
        ({"use_rnn": True}, VECTOR, DISCRETE),
        ({"actor_critic_share_weights": False}, VECTOR, DISCRETE),
        ({"continuous_tanh_scale": 1.0}, VECTOR, NUMBERS),
        ({}, VECTOR, spaces.MultiDiscrete([2, 3])),
        ({}, spaces.Dict({"obs": spaces.Box(0, 255, (3, 36, 36), np.uint8)}), DISCRETE),
        ({}, spaces.Dict({**VECTOR.spaces, "action_mask": spaces.Box(0, 1, (3,), np.uint8)}), DISCRETE),
    ],
    ids=["rnn", "separate", "tanh scale", "several heads", "images", "masks"],
)
def test_other_networks_act_through_torch(make_cfg, changes, obs_space, action_space):
    model = make_actor_critic(make_cfg(**{**PLAIN, **changes}), obs_space, action_space)
    assert not NumpyPolicy.fits(model, obs_space)

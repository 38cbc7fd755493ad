"""A small network's forward and backward pass in numpy are those of torch."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_factory.model import mlp
from sample_factory.model.actor_critic import make_actor_critic
from sample_factory.model.numpy_training import NumpyTraining

VECTOR = spaces.Dict({"obs": spaces.Box(-np.inf, np.inf, (5,), np.float32)})
DISCRETE = spaces.Discrete(3)
NUMBERS = spaces.Box(-1, 1, (2,), np.float32)
PLAIN = {"use_rnn": False, "hidden_size": 16}
VARIANTS = [
    {"nonlinearity": "tanh"},
    {"nonlinearity": "relu"},
    {"nonlinearity": "elu"},
    {"decoder_mlp_layers": [8]},
    {"encoder_mlp_layers": [32, 8, 8]},
    {"encoder_mlp_layers": []},
    {"adaptive_stddev": False},
]


@pytest.fixture
def pure_torch(monkeypatch):
    """Layers one by one, differentiated by torch."""
    monkeypatch.setattr(mlp, "trains_on_cpu", lambda x: False)


def make_network(make_cfg, action_space, **changes):
    model = make_actor_critic(make_cfg(**PLAIN, **changes), VECTOR, action_space)
    assert NumpyTraining.fits(model)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 99.0)  # to be written over, not added to
    return model, NumpyTraining(model)


def check(model, network, num_rows):
    """One pass in numpy, then torch's."""
    rows = torch.randn(num_rows, 5)
    params, values = network.forward(rows.numpy())
    of_outputs = np.random.default_rng(0).normal(size=(len(params) + 1, num_rows)).astype(np.float32)
    of_params, of_values = of_outputs[:-1], of_outputs[-1]
    params, values = torch.from_numpy(params), torch.from_numpy(values)
    network.backward(of_params, of_values)
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    output = model.evaluate({"obs": rows[:, None]}, torch.zeros(num_rows, 1), torch.zeros(num_rows, 1).bool())
    torch.testing.assert_close(params.T, output.action_params[:, 0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(values, output.values[:, 0], rtol=1e-4, atol=1e-5)
    weighted = (output.action_params[:, 0] * torch.from_numpy(of_params.T)).sum()
    weighted = weighted + (output.values[:, 0] * torch.from_numpy(of_values)).sum()
    expected = torch.autograd.grad(weighted, list(model.parameters()))
    for (name, gradient), wanted in zip(found.items(), expected, strict=True):
        torch.testing.assert_close(
            gradient, wanted, rtol=1e-3, atol=1e-4, msg=lambda text, n=name: f"{n}: {text}"
        )


@pytest.mark.parametrize("action_space", [DISCRETE, NUMBERS], ids=["discrete", "numbers"])
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_outputs_and_gradients_are_those_of_torch(make_cfg, pure_torch, action_space, changes):
    check(*make_network(make_cfg, action_space, **changes), num_rows=40)


def test_passes_may_differ_in_length(make_cfg, pure_torch):
    model, network = make_network(make_cfg, DISCRETE)
    for num_rows in (40, 8, 60, 40):
        check(model, network, num_rows)


def test_weights_that_have_changed_are_seen(make_cfg, pure_torch):
    model, network = make_network(make_cfg, NUMBERS, adaptive_stddev=False)
    other, _ = make_network(make_cfg, NUMBERS, adaptive_stddev=False)
    model.load_state_dict(other.state_dict())
    check(model, network, num_rows=20)


def test_outputs_of_a_pass_outlive_the_next_one(make_cfg):
    _, network = make_network(make_cfg, DISCRETE)
    rows = np.random.default_rng(0).normal(size=(2, 10, 5)).astype(np.float32)
    outputs = network.forward(rows[0])
    kept = [array.copy() for array in outputs]
    network.forward(rows[1])
    assert all(np.array_equal(array, copy) for array, copy in zip(outputs, kept, strict=True))


@pytest.mark.parametrize(
    ("changes", "action_space"),
    [
        ({"use_rnn": True}, DISCRETE),
        ({"actor_critic_share_weights": False}, DISCRETE),
        ({"continuous_tanh_scale": 1.0}, NUMBERS),
        ({"hidden_size": mlp.MAX_WIDTH + 1}, DISCRETE),
        ({}, spaces.MultiDiscrete([2, 3])),
    ],
    ids=["rnn", "separate", "tanh scale", "wide", "several heads"],
)
def test_other_networks_are_left_to_torch(make_cfg, changes, action_space):
    model = make_actor_critic(make_cfg(**{**PLAIN, **changes}), VECTOR, action_space)
    assert not NumpyTraining.fits(model)

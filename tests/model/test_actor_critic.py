"""Acting step by step and evaluating whole trajectories are the same function."""

from __future__ import annotations

import copy
import itertools
import pickle
import shutil

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from sample_factory.config.errors import ConfigError
from sample_factory.model.actor_critic import ActorCritic, make_actor_critic

N, T = 5, 7
CORES = [
    {"use_rnn": False},
    {"rnn_type": "gru"},
    {"rnn_type": "lstm"},
    {"rnn_type": "gru", "rnn_num_layers": 2},
    {"rnn_type": "lstm", "rnn_num_layers": 2},
]
SHARED = [True, False]


@pytest.fixture
def make_model(small_cfg, vector_space):
    def make(**changes) -> ActorCritic:
        return make_actor_critic(small_cfg(**changes), spaces.Dict(obs=vector_space(4)), spaces.Discrete(3))

    return make


def _act_in_a_loop(model: ActorCritic, obs: Tensor, states: Tensor, dones: Tensor) -> tuple[Tensor, Tensor]:
    """Reference: one step at a time, the state set to zero after each done."""
    params, values = [], []
    for t in range(obs.shape[1]):
        output = model.act({"obs": obs[:, t]}, states)
        params.append(output.action_params)
        values.append(output.values)
        states = output.rnn_states.clone()
        if t < dones.shape[1]:
            states[dones[:, t]] = 0.0
    return torch.stack(params, dim=1), torch.stack(values, dim=1)


def _dones() -> Tensor:
    """No done; one first, last, in the middle; several in a row."""
    dones = torch.zeros(N, T, dtype=torch.bool)
    dones[1, 0] = dones[2, T - 1] = dones[3, 3] = True
    dones[4, 2:5] = True
    return dones


@pytest.mark.parametrize("rows", [T, T + 1])
@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("core", CORES)
def test_evaluating_trajectories_equals_acting_step_by_step(make_model, core, shared, rows):
    model = make_model(actor_critic_share_weights=shared, decoder_mlp_layers=[6], **core)
    obs, states, dones = torch.randn(N, rows, 4), torch.randn(N, model.rnn_state_size), _dones()
    output = model.evaluate({"obs": obs}, states, dones)
    params, values = _act_in_a_loop(model, obs, states, dones)
    torch.testing.assert_close(output.action_params, params, atol=2e-6, rtol=0)
    torch.testing.assert_close(output.values, values, atol=2e-6, rtol=0)


@pytest.mark.parametrize("shared", SHARED)
def test_evaluating_without_any_done_equals_acting_step_by_step(make_model, shared):
    model = make_model(actor_critic_share_weights=shared, rnn_type="lstm")
    dones = torch.zeros(N, T, dtype=torch.bool)
    obs, states = torch.randn(N, T + 1, 4), torch.randn(N, model.rnn_state_size)
    _, values = _act_in_a_loop(model, obs, states, dones)
    torch.testing.assert_close(model.evaluate({"obs": obs}, states, dones).values, values, atol=2e-6, rtol=0)


@pytest.mark.parametrize(
    ("core", "shared", "size"),
    [
        ({"use_rnn": False}, True, 1),
        ({"use_rnn": False}, False, 1),
        ({"rnn_type": "gru"}, True, 16),
        ({"rnn_type": "gru", "rnn_num_layers": 2}, True, 32),
        ({"rnn_type": "gru"}, False, 32),
        ({"rnn_type": "lstm"}, True, 32),
        ({"rnn_type": "lstm", "rnn_num_layers": 2}, False, 128),
    ],
)
def test_the_state_has_room_for_all_layers_of_actor_and_critic(make_model, core, shared, size):
    assert make_model(actor_critic_share_weights=shared, **core).rnn_state_size == size


@pytest.mark.parametrize("core", CORES)
def test_outputs_have_the_promised_shapes(make_model, core):
    model = make_model(decoder_mlp_layers=[6], hidden_size=8, **core)
    output = model.act({"obs": torch.randn(2, 4)}, torch.zeros(2, model.rnn_state_size))
    assert [tuple(part.shape) for part in output] == [(2, 3), (2,), (2, model.rnn_state_size)]
    dones = torch.zeros(2, T, dtype=torch.bool)
    output = model.evaluate({"obs": torch.randn(2, T + 1, 4)}, torch.zeros(2, model.rnn_state_size), dones)
    assert [tuple(part.shape) for part in output] == [(2, 8, 3), (2, 8), (2, 8, 8), (2, 8, 8)]


def test_the_lstm_state_is_h_then_c_within_each_layer(make_model):
    model = make_model(rnn_type="lstm", rnn_num_layers=2)
    obs = torch.randn(N, 4)
    states = torch.randn(N, 64)
    after = model.act({"obs": obs}, states).rnn_states
    h, c = torch.stack((states[:, :16], states[:, 32:48])), torch.stack((states[:, 16:32], states[:, 48:]))
    _, (h, c) = model.actor.core.rnn(model.actor.encoder({"obs": obs}).unsqueeze(0), (h, c))
    torch.testing.assert_close(after, torch.cat((h[0], c[0], h[1], c[1]), dim=1), atol=2e-6, rtol=0)


def test_states_are_the_actors_then_the_critics(make_model):
    model = make_model(actor_critic_share_weights=False)
    obs, states = {"obs": torch.randn(N, 4)}, torch.randn(N, 32)
    before = model.act(obs, states)
    states[:, 16:] += 1.0
    after = model.act(obs, states)
    assert torch.equal(before.action_params, after.action_params)
    assert not torch.equal(before.values, after.values)


@pytest.mark.parametrize("core", CORES)
def test_separate_networks_train_without_touching_each_other(make_model, core):
    model = make_model(actor_critic_share_weights=False, **core)
    states = torch.zeros(N, model.rnn_state_size)
    model.evaluate({"obs": torch.randn(N, T, 4)}, states, _dones()).values.sum().backward()
    touched = {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None}
    assert touched == {"critic", "value_head"}
    assert all(p.grad.abs().sum() > 0 for p in model.critic.parameters() if p.ndim > 1)


def test_a_shared_network_is_trained_by_both_losses(make_model):
    for index in (0, 1):
        model = make_model()
        states = torch.zeros(N, model.rnn_state_size)
        model.evaluate({"obs": torch.randn(N, T, 4)}, states, _dones())[index].sum().backward()
        assert all(p.grad is not None for p in model.actor.parameters())


def test_gradients_flow_through_time_but_not_over_the_end_of_an_episode(make_model):
    model = make_model()
    obs = torch.randn(1, T, 4, requires_grad=True)
    dones = torch.zeros(1, T, dtype=torch.bool)
    dones[0, 2] = True
    model.evaluate({"obs": obs}, torch.zeros(1, model.rnn_state_size), dones).values[0, 5].backward()
    reached = obs.grad.abs().sum(dim=2)[0] > 0
    assert reached.tolist() == [False, False, False, True, True, True, False]


def test_acting_gives_values_in_the_units_of_rewards(make_model):
    model = make_model(normalize_returns=True)
    states = torch.zeros(N, model.rnn_state_size)
    obs = torch.randn(N, 1, 4)
    model.returns_normalizer.update(torch.randn(10_000) * 20 + 300)
    normalised = model.evaluate({"obs": obs}, states, torch.zeros(N, 1, dtype=torch.bool)).values[:, 0]
    values = model.act({"obs": obs[:, 0]}, states).values
    deviation = (model.returns_normalizer.var.item() + 1e-5) ** 0.5
    expected = normalised * deviation + model.returns_normalizer.mean.item()
    torch.testing.assert_close(values, expected, atol=1e-3, rtol=0)
    assert values.mean() > 200


def test_normalised_observations_reach_the_network_and_its_state(make_model):
    model = make_model(normalize_input=True)
    obs, states = {"obs": torch.randn(N, 4) + 3.0}, torch.zeros(N, model.rnn_state_size)
    before = model.act(obs, states).values
    model.update_obs_normalizers(obs)
    assert not torch.equal(model.act(obs, states).values, before)
    assert any("mean" in name for name in model.state_dict())
    assert list(model.obs_normalizers) == ["obs"]


def test_the_action_mask_reaches_the_distribution_but_not_the_network(small_cfg, vector_space):
    mask_space = spaces.Box(0, 1, (3,), np.int8)
    obs_space = spaces.Dict(obs=vector_space(4), action_mask=mask_space)
    model = make_actor_critic(small_cfg(), obs_space, spaces.Discrete(3))
    obs = {"obs": torch.randn(2, T, 4), "action_mask": torch.zeros(2, T, 3, dtype=torch.int8)}
    obs["action_mask"][..., 1] = 1
    states = torch.zeros(2, model.rnn_state_size)
    output = model.evaluate(obs, states, torch.zeros(2, T, dtype=torch.bool))
    distribution = model.action_distribution(output.action_params, obs)
    assert (distribution.sample() == 1.0).all()
    assert distribution.entropy().abs().max() < 1e-6
    step = model.act({key: value[:, 0] for key, value in obs.items()}, states)
    torch.testing.assert_close(step.action_params, output.action_params[:, 0], atol=2e-6, rtol=0)


def test_a_network_without_a_mask_allows_every_action(make_model):
    model = make_model()
    obs = {"obs": torch.randn(2, 4)}
    output = model.act(obs, torch.zeros(2, model.rnn_state_size))
    entropy = model.action_distribution(torch.zeros_like(output.action_params), obs).entropy()
    torch.testing.assert_close(entropy, torch.full((2,), 3.0).log())


@pytest.mark.parametrize(("shared", "core"), itertools.product(SHARED, CORES))
def test_a_restored_state_dict_gives_identical_outputs(make_model, shared, core):
    changes = {
        "actor_critic_share_weights": shared,
        "normalize_input": True,
        "normalize_returns": True,
        **core,
    }
    model, other = make_model(**changes), make_model(**changes)
    obs, states = {"obs": torch.randn(N, 4)}, torch.randn(N, model.rnn_state_size)
    model.update_obs_normalizers(obs)
    model.returns_normalizer.update(torch.randn(10))
    assert not torch.equal(model.act(obs, states).values, other.act(obs, states).values)
    other.load_state_dict(model.state_dict())
    for one, two in zip(model.act(obs, states), other.act(obs, states), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("rnn_type", ["gru", "lstm"])
def test_loaded_weights_are_used_for_acting_and_for_evaluating(make_model, rnn_type, assign):
    model, other = make_model(rnn_type=rnn_type), make_model(rnn_type=rnn_type)
    other.load_state_dict(model.state_dict(), assign=assign)
    obs, states = torch.randn(N, 1, 4), torch.randn(N, model.rnn_state_size)
    expected = model.act({"obs": obs[:, 0]}, states).values
    evaluated = other.evaluate({"obs": obs}, states, torch.zeros(N, 1, dtype=torch.bool)).values[:, 0]
    assert torch.equal(other.act({"obs": obs[:, 0]}, states).values, expected)
    torch.testing.assert_close(evaluated, expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize("rnn_type", ["gru", "lstm"])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copys_weights_are_its_own_in_acting_and_evaluating(make_model, duplicate, rnn_type):
    model = make_model(rnn_type=rnn_type)
    other = duplicate(model)
    obs, states = torch.randn(N, 1, 4), torch.randn(N, model.rnn_state_size)
    before = model.act({"obs": obs[:, 0]}, states).values
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.5)
    evaluated = other.evaluate({"obs": obs}, states, torch.zeros(N, 1, dtype=torch.bool)).values[:, 0]
    torch.testing.assert_close(other.act({"obs": obs[:, 0]}, states).values, evaluated, atol=2e-6, rtol=0)
    assert torch.equal(model.act({"obs": obs[:, 0]}, states).values, before)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_of_a_network_are_complete_and_independent(make_model, duplicate):
    model = make_model(normalize_input=True)
    other = duplicate(model)
    obs, states = {"obs": torch.randn(N, 4) + 5.0}, torch.zeros(N, model.rnn_state_size)
    before = other.act(obs, states).values
    model.update_obs_normalizers(obs)
    assert torch.equal(other.act(obs, states).values, before)
    other.update_obs_normalizers(obs)
    assert torch.equal(other.act(obs, states).values, model.act(obs, states).values)


@pytest.mark.parametrize("core", CORES)
def test_acting_can_be_compiled_as_one_graph(make_model, core):
    model = make_model(normalize_input=True, normalize_returns=True, obs_scale=2.0, **core)
    obs, states = {"obs": torch.randn(N, 4)}, torch.randn(N, model.rnn_state_size)
    compiled = torch.compile(model.act, backend="eager", fullgraph=True)
    with torch.inference_mode():
        for one, two in zip(compiled(obs, states), model.act(obs, states), strict=True):
            torch.testing.assert_close(one, two)


def test_images_are_acted_on_and_evaluated(small_cfg, image_space):
    model = make_actor_critic(
        small_cfg(obs_scale=255.0), spaces.Dict(obs=image_space(3, 36, 44)), spaces.Discrete(3)
    )
    obs = torch.randint(0, 256, (2, T + 1, 3, 36, 44), dtype=torch.uint8)
    states = torch.zeros(2, model.rnn_state_size)
    output = model.evaluate({"obs": obs}, states, torch.ones(2, T, dtype=torch.bool))
    for t in range(T + 1):
        step = model.act({"obs": obs[:, t]}, states)
        torch.testing.assert_close(output.values[:, t], step.values, atol=2e-6, rtol=0)


def test_an_unknown_rnn_is_refused_with_the_known_ones(make_model):
    with pytest.raises(ConfigError, match="--rnn_type=elman is unknown: use gru or lstm"):
        make_model(rnn_type="elman")


def outputs_and_gradients(cfg, compiled=False):
    torch.manual_seed(0)
    obs_space = spaces.Dict({"obs": spaces.Box(0, 255, (3, 36, 36), np.uint8)})
    obs = {"obs": torch.randint(0, 255, (3, 5, 3, 36, 36), dtype=torch.uint8)}
    model = make_actor_critic(cfg, obs_space, spaces.Discrete(3))
    if compiled:
        model.compile_encoders()
    output = model.evaluate(obs, torch.zeros(3, 1), torch.zeros(3, 5, dtype=torch.bool))
    (output.action_params.square().mean() + output.values.square().mean()).backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return {"params": output.action_params, "values": output.values, **gradients}


def assert_all_close(first, second):
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(tensor, second[name], rtol=1e-4, atol=1e-6)


PICTURES = {"use_rnn": False, "hidden_size": 16, "obs_scale": 255.0}


@pytest.mark.parametrize("share", [True, False])
def test_micro_batches_change_neither_outputs_nor_gradients(make_cfg, share):
    whole, pieces = (
        outputs_and_gradients(make_cfg(**PICTURES, micro_batch_size=size, actor_critic_share_weights=share))
        for size in (1000, 4)
    )
    assert_all_close(whole, pieces)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_encoders_give_the_same_outputs_gradients_and_names(make_cfg):
    cfg = make_cfg(**PICTURES, micro_batch_size=5)
    assert_all_close(outputs_and_gradients(cfg), outputs_and_gradients(cfg, compiled=True))

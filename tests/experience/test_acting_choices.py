"""Actions of networks that torch runs are chosen in numpy by the same probabilities."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_factory.algorithms.appo.acting import ActingPolicy
from sample_factory.algorithms.appo.trajectories import TrajectoryLayout, TrajectoryStore
from sample_factory.algorithms.appo.weights import WeightsLayout, WeightStore
from sample_factory.config.parsing import default_cfg
from sample_factory.model.actor_critic import make_actor_critic
from sample_factory.processes.shared_memory import SharedArrays
from sample_factory.rl.action_spaces import num_action_parameters, num_actions

SLOTS = 4000
SPACES = {"discrete": spaces.Discrete(3), "numbers": spaces.Box(-1, 1, (2,), np.float32)}


@pytest.fixture(params=list(SPACES))
def acted(request):
    """A recurrent network, its store after one step on the same observation in all slots, and the policy."""
    action_space = SPACES[request.param]
    cfg = default_cfg()
    cfg.hidden_size, cfg.encoder_type, cfg.encoder_subtype = 16, "mlp", "mlp_mujoco"
    torch.manual_seed(0)
    model = make_actor_critic(cfg, spaces.Dict(obs=spaces.Box(-1, 1, (2,), np.float32)), action_space)
    model.action_head.linear.weight.data *= 30.0  # else all choices are alike
    sizes = num_actions(action_space), num_action_parameters(action_space)
    layout = TrajectoryLayout(1, {"obs": ((2,), "float32")}, *sizes, model.rnn_state_size)
    store = TrajectoryStore(layout, SharedArrays(layout.specs(SLOTS)))
    store.obs["obs"][:] = 0.5
    tensors = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    shapes = WeightsLayout({name: (array.shape, str(array.dtype)) for name, array in tensors.items()})
    weights = WeightStore(shapes, SharedArrays(shapes.specs()))
    weights.publish(tensors, 1)
    policy = ActingPolicy(model, weights, store, seed=3)
    policy.refresh()
    policy.act(np.arange(SLOTS), 0)
    return model, store, policy


def test_log_probabilities_are_those_of_the_networks_distribution(acted):
    model, store, _ = acted
    outputs = torch.from_numpy(store.outputs[:, 0])
    count = store.layout.num_actions
    actions, params = outputs[:, :count], outputs[:, count:-2]
    distribution = model.action_distribution(params, {})
    torch.testing.assert_close(outputs[:, -2], distribution.log_prob(actions), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        obs = {"obs": torch.full((1, 2), 0.5)}
        expected = model.act(obs, torch.zeros(1, model.rnn_state_size))
    torch.testing.assert_close(params[:1], expected.action_params, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(outputs[:1, -1], expected.values, rtol=1e-4, atol=1e-5)


def test_actions_come_as_often_as_their_probabilities_say(acted):
    model, store, _ = acted
    count = store.layout.num_actions
    outputs = store.outputs[:, 0]
    params = torch.from_numpy(outputs[:1, count:-2])
    if isinstance(model.action_space, spaces.Discrete):
        expected = params.softmax(dim=-1)[0].numpy()
        found = np.bincount(outputs[:, 0].astype(int), minlength=3) / SLOTS
        assert expected.max() - expected.min() > 0.05
        np.testing.assert_allclose(found, expected, atol=4 * np.sqrt(0.25 / SLOTS))
    else:
        means, stddevs = params[0, :2].numpy(), params[0, 2:].exp().numpy()
        np.testing.assert_allclose(outputs[:, :2].mean(axis=0), means, atol=4 * stddevs.max() / SLOTS**0.5)
        np.testing.assert_allclose(outputs[:, :2].std(axis=0), stddevs, rtol=0.06)


def test_a_state_saved_when_torch_chose_does_not_stop_a_resume(acted):
    policy = acted[2]
    policy.load_state_dict({"generator": torch.Generator().get_state()})
    policy.load_state_dict(policy.state_dict())

"""Parameters of the action distribution: their number, their order, their bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_factory.model.heads import ActionHead
from sample_factory.rl.distributions import make_distribution, num_action_parameters


def _box(size: int) -> spaces.Box:
    return spaces.Box(-1, 1, (size,), np.float32)


MIXED = spaces.Tuple([_box(2), spaces.Discrete(3), _box(1)])
MEANS, LOGITS, LOG_STDDEVS = [0, 1, 7], [4, 5, 6], [2, 3, 8]


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize(
    "space", [spaces.Discrete(5), spaces.Tuple([spaces.Discrete(2), spaces.Discrete(4)]), _box(3), MIXED]
)
def test_every_parameter_of_the_distribution_is_given(make_cfg, space, adaptive):
    head = ActionHead(make_cfg(adaptive_stddev=adaptive), 4, space)
    params = head(torch.randn(6, 2, 4))
    assert params.shape == (6, 2, num_action_parameters(space))
    make_distribution(space, params).sample()


def test_learned_deviations_start_at_the_setting_and_ignore_the_state(make_cfg):
    head = ActionHead(make_cfg(adaptive_stddev=False, initial_stddev=0.5), 4, MIXED)
    params = head(torch.randn(6, 4) * 100)
    torch.testing.assert_close(params[:, LOG_STDDEVS], torch.full((6, 3), math.log(0.5)))
    assert (params[0, MEANS] != params[1, MEANS]).all()
    assert (params[0, LOGITS] != params[1, LOGITS]).all()


def test_learned_deviations_are_trained(make_cfg):
    head = ActionHead(make_cfg(adaptive_stddev=False), 4, _box(2))
    make_distribution(_box(2), head(torch.randn(6, 4))).entropy().sum().backward()
    assert head.log_stddev.grad.tolist() == [6.0, 6.0]


def test_adaptive_deviations_depend_on_the_state(make_cfg):
    params = ActionHead(make_cfg(adaptive_stddev=True), 4, _box(2))(torch.randn(2, 4))
    assert (params[0, 2:] != params[1, 2:]).all()


@pytest.mark.parametrize("adaptive", [True, False])
def test_tanh_bounds_the_means_and_nothing_else(make_cfg, adaptive):
    features = torch.randn(6, 4) * 100
    torch.manual_seed(1)
    free = ActionHead(make_cfg(adaptive_stddev=adaptive), 4, MIXED)(features)
    torch.manual_seed(1)
    bounded = ActionHead(make_cfg(adaptive_stddev=adaptive, continuous_tanh_scale=2.0), 4, MIXED)(features)
    torch.testing.assert_close(bounded[:, MEANS], 2.0 * torch.tanh(free[:, MEANS] / 2.0))
    assert torch.equal(bounded[:, LOGITS + LOG_STDDEVS], free[:, LOGITS + LOG_STDDEVS])


def test_tanh_leaves_logits_of_discrete_actions_alone(make_cfg):
    params = ActionHead(make_cfg(continuous_tanh_scale=0.1), 4, spaces.Discrete(3))(torch.randn(6, 4) * 100)
    assert params.abs().max() > 1.0

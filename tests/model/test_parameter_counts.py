"""Networks have exactly as many weights as the models whose results are published."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from torch import nn

from sample_factory.model.actor_critic import make_actor_critic


def _num_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_doom_benchmark_network_has_2874090_weights(make_cfg, image_space):
    cfg = make_cfg(encoder_custom="vizdoom", obs_scale=255.0)
    model = make_actor_critic(cfg, spaces.Dict(obs=image_space(3, 72, 128)), spaces.Discrete(9))
    assert _num_parameters(model) == 2_874_090


def test_doom_battle_network_has_3096438_weights(make_cfg, image_space, vector_space):
    cfg = make_cfg(encoder_custom="vizdoom")
    obs_space = spaces.Dict(obs=image_space(3, 72, 128), measurements=vector_space(23))
    action_space = spaces.Tuple([spaces.Discrete(n) for n in (3, 3, 2, 2, 11)])
    assert _num_parameters(make_actor_critic(cfg, obs_space, action_space)) == 3_096_438


def test_atari_network_has_2742501_weights(make_cfg, image_space):
    model = make_actor_critic(make_cfg(), spaces.Dict(obs=image_space(4, 84, 84)), spaces.Discrete(4))
    assert _num_parameters(model) == 2_742_501


def test_dmlab30_network_has_1620592_weights(make_cfg, image_space):
    cfg = make_cfg(
        encoder_type="resnet",
        encoder_subtype="resnet_impala",
        encoder_custom="dmlab_instructions",
        encoder_extra_fc_layers=1,
        hidden_size=256,
        rnn_type="lstm",
    )
    obs_space = spaces.Dict(obs=image_space(3, 72, 96), INSTR=spaces.Box(0, 1000, (16,), np.int32))
    assert _num_parameters(make_actor_critic(cfg, obs_space, spaces.Discrete(15))) == 1_620_592

"""Which encoder is built for which observations and settings, and what comes out."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from sample_factory.config.errors import ConfigError
from sample_factory.model import encoders
from sample_factory.model.actor_critic import make_actor_critic
from sample_factory.model.encoders import (
    ConvEncoder,
    EncoderBase,
    MlpEncoder,
    MultiInputEncoder,
    ResnetEncoder,
    make_encoder,
    register_custom_encoder,
)
from sample_factory.model.encoders_custom import DmlabInstructionsEncoder


@pytest.fixture
def registry(monkeypatch):
    """Registrations that end with the test."""
    monkeypatch.setattr(encoders, "_custom_encoders", encoders.custom_encoders())


@pytest.mark.parametrize(
    ("subtype", "shape", "flat_size"),
    [
        ("convnet_simple", (3, 72, 128), 2304),
        ("convnet_simple", (4, 84, 84), 2048),
        ("convnet_impala", (3, 72, 96), 2240),
        ("convnet_atari", (4, 84, 84), 3136),
        ("minigrid_convnet_tiny", (3, 7, 7), 576),
    ],
)
def test_convolutions_give_the_documented_number_of_features(
    make_cfg, image_space, subtype, shape, flat_size
):
    cfg = make_cfg(encoder_subtype=subtype, encoder_extra_fc_layers=0)
    encoder = make_encoder(cfg, spaces.Dict(obs=image_space(*shape)))
    assert encoder.encoder_out_size == flat_size
    assert encoder({"obs": torch.zeros(2, *shape)}).shape == (2, flat_size)


@pytest.mark.parametrize(("shape", "flat_size"), [((3, 72, 96), 3456), ((3, 7, 9), 64)])
def test_resnet_gives_as_many_features_as_it_says(make_cfg, image_space, shape, flat_size):
    cfg = make_cfg(encoder_type="resnet", encoder_subtype="resnet_impala", encoder_extra_fc_layers=0)
    encoder = make_encoder(cfg, spaces.Dict(obs=image_space(*shape)))
    assert encoder.encoder_out_size == flat_size
    assert encoder({"obs": torch.zeros(2, *shape)}).shape == (2, flat_size)


def _layer_sizes(module: nn.Module) -> list[tuple[int, int]]:
    return [(m.in_features, m.out_features) for m in module.modules() if isinstance(m, nn.Linear)]


def test_mlp_has_two_layers_and_the_extra_ones(make_cfg, vector_space):
    cfg = make_cfg(
        encoder_type="mlp", encoder_subtype="mlp_mujoco", hidden_size=64, encoder_extra_fc_layers=1
    )
    encoder = make_encoder(cfg, spaces.Dict(obs=vector_space(5)))
    assert _layer_sizes(encoder) == [(5, 64), (64, 64), (64, 64)]
    assert encoder.encoder_out_size == 64


def test_extra_layers_follow_the_convolutions(make_cfg, image_space):
    cfg = make_cfg(hidden_size=32, encoder_extra_fc_layers=2)
    encoder = make_encoder(cfg, spaces.Dict(obs=image_space(4, 84, 84)))
    assert _layer_sizes(encoder) == [(2048, 32), (32, 32)]


def test_listed_layers_replace_the_counted_ones(make_cfg, image_space, vector_space):
    cfg = make_cfg(encoder_mlp_layers=[7, 6], encoder_conv_mlp_layers=[9])
    encoder = make_encoder(cfg, spaces.Dict(camera=image_space(3, 36, 36), speed=vector_space(4)))
    assert _layer_sizes(encoder) == [(128, 9), (4, 7), (7, 6)]
    assert encoder.encoder_out_size == 15


@pytest.mark.parametrize("name", ["elu", "relu", "tanh"])
def test_every_layer_is_followed_by_the_chosen_nonlinearity(make_cfg, vector_space, name):
    encoder = make_encoder(make_cfg(nonlinearity=name), spaces.Dict(obs=vector_space(5)))
    kinds = [
        type(m).__name__.lower() for m in encoder.modules() if not isinstance(m, nn.Linear | nn.Sequential)
    ]
    assert kinds[1:] == [name] * 3


def test_unknown_nonlinearity_is_refused_with_the_known_ones(make_cfg, vector_space):
    with pytest.raises(ConfigError, match="--nonlinearity=gelu is unknown: use one of elu, relu, tanh"):
        make_encoder(make_cfg(nonlinearity="gelu"), spaces.Dict(obs=vector_space(5)))


def test_vectors_get_an_mlp_when_nobody_asked_for_convolutions(make_cfg, vector_space):
    assert isinstance(make_encoder(make_cfg(), spaces.Dict(obs=vector_space(4))), MlpEncoder)


@pytest.mark.parametrize("typed", [{"encoder_type": "conv"}, {"encoder_subtype": "convnet_simple"}])
def test_convolutions_on_vectors_are_refused_when_typed(make_cfg, vector_space, typed):
    with pytest.raises(ConfigError, match=r"reads images.*\(4,\).*use --encoder_type=mlp"):
        make_encoder(make_cfg(typed=typed), spaces.Dict(obs=vector_space(4)))


def test_an_mlp_on_images_is_refused(make_cfg, image_space):
    with pytest.raises(ConfigError, match=r"--encoder_type=mlp reads vectors.*use --encoder_type=conv"):
        make_encoder(make_cfg(encoder_type="mlp"), spaces.Dict(obs=image_space(3, 72, 96)))


def test_too_small_images_are_refused_with_an_encoder_that_fits(make_cfg, image_space):
    with pytest.raises(ConfigError, match=r"too small for --encoder_subtype=convnet_simple.*minigrid"):
        make_encoder(make_cfg(), spaces.Dict(obs=image_space(3, 7, 7)))


def test_the_type_alone_is_enough(make_cfg, image_space):
    cfg = make_cfg(typed={"encoder_type": "resnet"})
    assert isinstance(make_encoder(cfg, spaces.Dict(obs=image_space(3, 72, 96))), ResnetEncoder)


@pytest.mark.parametrize("typed", [{"encoder_subtype": "resnet_impala"}, None])
def test_the_subtype_alone_is_enough_also_when_a_session_resumes(make_cfg, image_space, typed):
    cfg = make_cfg(typed=typed, encoder_type="conv", encoder_subtype="resnet_impala")
    assert isinstance(make_encoder(cfg, spaces.Dict(obs=image_space(3, 72, 96))), ResnetEncoder)


def test_contradicting_type_and_subtype_are_refused(make_cfg, image_space):
    cfg = make_cfg(typed={"encoder_type": "resnet", "encoder_subtype": "convnet_impala"})
    with pytest.raises(ConfigError, match="use --encoder_subtype=resnet_impala or --encoder_type=conv"):
        make_encoder(cfg, spaces.Dict(obs=image_space(3, 72, 96)))


@pytest.mark.parametrize("name", ["encoder_type", "encoder_subtype", "encoder_custom"])
def test_unknown_names_are_refused_with_the_known_ones(make_cfg, image_space, name):
    with pytest.raises(ConfigError, match=f"--{name}=nonsense is unknown.* use one of .*(conv|vizdoom)"):
        make_encoder(make_cfg(**{name: "nonsense"}), spaces.Dict(obs=image_space(3, 72, 96)))


def test_each_key_of_a_dictionary_gets_its_own_encoder(make_cfg, image_space, vector_space):
    cfg = make_cfg(hidden_size=8)
    obs_space = spaces.Dict(obs=image_space(3, 36, 36), speed=vector_space(2), map=image_space(1, 36, 40))
    encoder = make_encoder(cfg, obs_space)
    assert isinstance(encoder, MultiInputEncoder)
    assert sorted(type(part).__name__ for part in encoder.encoders) == [
        "ConvEncoder",
        "ConvEncoder",
        "MlpEncoder",
    ]
    obs = {key: torch.randn(3, *space.shape) for key, space in obs_space.spaces.items()}
    out = encoder(obs)
    assert out.shape == (3, 24)
    changed = encoder({**obs, "speed": obs["speed"] + 1.0})
    assert (changed != out).any(dim=0).sum() <= 8


def test_the_action_mask_is_not_an_input(make_cfg, vector_space):
    obs_space = spaces.Dict(obs=vector_space(4), action_mask=spaces.Box(0, 1, (2,), np.int8))
    assert isinstance(make_encoder(make_cfg(), obs_space), MlpEncoder)


def test_words_are_no_input_of_the_standard_encoder_and_the_user_is_told(make_cfg, image_space, caplog):
    obs_space = spaces.Dict(obs=image_space(3, 72, 96), INSTR=spaces.Box(0, 1000, (16,), np.int32))
    with caplog.at_level(logging.WARNING, logger="sample_factory"):
        encoder = make_encoder(make_cfg(), obs_space)
    assert isinstance(encoder, ConvEncoder)
    assert "'INSTR'" in caplog.text
    assert "--encoder_custom" in caplog.text


def test_discrete_observations_are_one_hot(make_cfg):
    cfg = make_cfg(encoder_mlp_layers=[])
    encoder = make_encoder(cfg, spaces.Dict(obs=spaces.Discrete(3, start=5)))
    assert encoder({"obs": torch.tensor([5, 7])}).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_observations_without_a_single_usable_key_are_refused(make_cfg):
    with pytest.raises(ConfigError, match="use Box or Discrete spaces, or --encoder_custom"):
        make_encoder(make_cfg(), spaces.Dict(text=spaces.Text(5)))


class _SumEncoder(EncoderBase):
    def __init__(self, cfg, obs_space):
        super().__init__(cfg, obs_space)
        self.encoder_out_size = 1

    def forward(self, obs_dict):
        return obs_dict["obs"].sum(dim=1, keepdim=True)


def test_a_registered_encoder_is_used_by_the_network(registry, small_cfg, vector_space):
    register_custom_encoder("sum", _SumEncoder)
    cfg = small_cfg(encoder_custom="sum", use_rnn=False)
    model = make_actor_critic(cfg, spaces.Dict(obs=vector_space(3)), spaces.Discrete(2))
    one = model.act({"obs": torch.tensor([[1.0, 2.0, 3.0]])}, torch.zeros(1, 1))
    other = model.act({"obs": torch.tensor([[6.0, 0.0, 0.0]])}, torch.zeros(1, 1))
    assert model.encoder_out_size == 1
    assert torch.equal(one.values, other.values)


def test_a_custom_encoder_without_a_size_is_refused(registry, make_cfg, vector_space):
    register_custom_encoder("sizeless", EncoderBase)
    with pytest.raises(ConfigError, match=r"must set self\.encoder_out_size"):
        make_encoder(make_cfg(encoder_custom="sizeless"), spaces.Dict(obs=vector_space(3)))


def _instructions_encoder(make_cfg, image_space) -> DmlabInstructionsEncoder:
    obs_space = spaces.Dict(obs=image_space(3, 36, 36), INSTR=spaces.Box(0, 1000, (16,), np.int32))
    encoder = make_encoder(make_cfg(encoder_custom="dmlab_instructions", hidden_size=4), obs_space)
    assert isinstance(encoder, DmlabInstructionsEncoder)
    return encoder


def test_instructions_are_read_word_by_word_up_to_the_padding(make_cfg, image_space):
    encoder = _instructions_encoder(make_cfg, image_space)
    words = torch.zeros(3, 16, dtype=torch.int32)
    words[1, :2] = torch.tensor([17, 4])
    words[2] = torch.arange(1, 17)
    out = encoder({"obs": torch.zeros(3, 3, 36, 36), "INSTR": words})
    assert out.shape == (3, 68)
    for row, length in ((0, 1), (1, 2), (2, 16)):
        alone, _ = encoder.sentence(encoder.words(words[row : row + 1, :length].long()))
        torch.testing.assert_close(out[row, 4:], alone[0, -1], atol=1e-6, rtol=0)


def test_instructions_are_trained(make_cfg, image_space):
    encoder = _instructions_encoder(make_cfg, image_space)
    words = torch.zeros(1, 16, dtype=torch.int32)
    words[0, 0] = 17
    encoder({"obs": torch.zeros(1, 3, 36, 36), "INSTR": words})[:, 4:].sum().backward()
    assert encoder.words.weight.grad[17].abs().sum() > 0
    assert encoder.words.weight.grad[:17].abs().sum() == 0

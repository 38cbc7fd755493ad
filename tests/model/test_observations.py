"""What happens to raw observations before an encoder sees them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_factory.config.errors import ConfigError
from sample_factory.model.actor_critic import make_actor_critic
from sample_factory.model.observations import ObservationPreparation


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_the_main_observation_is_centred_and_scaled(make_cfg, dtype):
    cfg = make_cfg(obs_subtract_mean=4.0, obs_scale=8.0)
    prepare = ObservationPreparation(cfg, spaces.Dict(obs=spaces.Box(0, 255, (3,), np.float32)))
    prepared = prepare({"obs": torch.tensor([[0, 4, 20]], dtype=dtype)})["obs"]
    assert prepared.dtype == torch.float32
    assert prepared.tolist() == [[-0.5, 0.0, 2.0]]


@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize(("mean", "scale"), [(0.0, 255.0), (1.0, 1.0), (0.0, 1.0)])
def test_the_callers_tensor_is_never_changed(make_cfg, image_space, memory_format, dtype, mean, scale):
    cfg = make_cfg(obs_subtract_mean=mean, obs_scale=scale, memory_format=memory_format)
    prepare = ObservationPreparation(cfg, spaces.Dict(obs=image_space(3, 4, 5)))
    images = torch.randint(0, 256, (2, 3, 4, 5)).to(dtype).contiguous(memory_format=torch.channels_last)
    before = images.clone()
    prepare({"obs": images})
    assert torch.equal(images, before)


def test_nothing_is_copied_when_nothing_is_to_be_done(make_cfg, vector_space):
    prepare = ObservationPreparation(make_cfg(), spaces.Dict(obs=vector_space(3)))
    vectors = torch.randn(2, 3)
    assert prepare({"obs": vectors})["obs"] is vectors


def test_other_keys_are_not_scaled_and_words_stay_integers(make_cfg, image_space, vector_space):
    obs_space = spaces.Dict(
        obs=image_space(3, 4, 5), speed=vector_space(1), INSTR=spaces.Box(0, 9, (2,), np.int32)
    )
    prepare = ObservationPreparation(make_cfg(obs_scale=255.0, normalize_input=True), obs_space)
    obs = {
        "obs": torch.zeros(1, 3, 4, 5, dtype=torch.uint8),
        "speed": torch.tensor([[2.0]]),
        "INSTR": torch.tensor([[7, 8]], dtype=torch.int32),
    }
    prepared = prepare(obs)
    assert prepared["INSTR"] is obs["INSTR"]
    assert list(prepare.normalizers) == ["obs", "speed"]


@pytest.mark.parametrize(
    ("memory_format", "is_channels_last"), [("auto", True), ("channels_last", True), ("contiguous", False)]
)
def test_images_get_the_memory_format_of_the_setting(make_cfg, image_space, memory_format, is_channels_last):
    prepare = ObservationPreparation(
        make_cfg(memory_format=memory_format), spaces.Dict(obs=image_space(3, 4, 5))
    )
    prepared = prepare({"obs": torch.zeros(2, 3, 4, 5, dtype=torch.uint8)})["obs"]
    assert prepared.is_contiguous(memory_format=torch.channels_last) == is_channels_last
    assert prepared.is_contiguous() != is_channels_last


@pytest.mark.parametrize("subtype", ["convnet_simple", "resnet_impala"])
def test_the_memory_format_does_not_change_the_numbers(small_cfg, image_space, subtype):
    obs_space = spaces.Dict(obs=image_space(3, 72, 96))
    images = torch.randint(0, 256, (4, 3, 72, 96), dtype=torch.uint8)
    outputs = []
    for memory_format in ("contiguous", "channels_last"):
        torch.manual_seed(1)
        cfg = small_cfg(encoder_subtype=subtype, obs_scale=255.0, memory_format=memory_format)
        model = make_actor_critic(cfg, obs_space, spaces.Discrete(3))
        outputs.append(model.act({"obs": images}, torch.zeros(4, model.rnn_state_size)))
    for contiguous, channels_last in zip(*outputs, strict=True):
        torch.testing.assert_close(contiguous, channels_last, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_the_pixel_format_does_not_change_the_numbers(small_cfg, image_space, memory_format):
    images = torch.randint(0, 256, (4, 3, 36, 40), dtype=torch.uint8)
    outputs = []
    for pixel_format, shape, arranged in (
        ("CHW", (3, 36, 40), images),
        ("HWC", (36, 40, 3), images.permute(0, 2, 3, 1).contiguous()),
    ):
        torch.manual_seed(1)
        cfg = small_cfg(pixel_format=pixel_format, memory_format=memory_format)
        model = make_actor_critic(cfg, spaces.Dict(obs=image_space(*shape)), spaces.Discrete(3))
        outputs.append(model.act({"obs": arranged}, torch.zeros(4, model.rnn_state_size)).action_params)
    torch.testing.assert_close(*outputs, atol=1e-4, rtol=1e-4)


def test_normalised_observations_have_mean_zero_and_deviation_one(make_cfg, vector_space):
    cfg = make_cfg(normalize_input=True, obs_scale=10.0)
    prepare = ObservationPreparation(cfg, spaces.Dict({"obs": vector_space(2), "with.dot": vector_space(1)}))
    obs = {"obs": torch.randn(64, 32, 2) * 30 + 100, "with.dot": torch.randn(64, 32, 1) - 7}
    for _ in range(3):
        prepare.update_normalizers(obs, None)
    prepared = prepare({key: value.flatten(0, 1) for key, value in obs.items()})
    for value in prepared.values():
        torch.testing.assert_close(value.mean(dim=0), torch.zeros(value.shape[1]), atol=0.02, rtol=0)
        torch.testing.assert_close(value.std(dim=0), torch.ones(value.shape[1]), atol=0.02, rtol=0)


def test_observations_normalise_only_after_an_update(make_cfg, vector_space):
    prepare = ObservationPreparation(make_cfg(normalize_input=True), spaces.Dict(obs=vector_space(1)))
    vectors = torch.tensor([[3.0]])
    torch.testing.assert_close(prepare({"obs": vectors})["obs"], vectors, atol=1e-4, rtol=0)


def test_invalid_steps_do_not_enter_the_statistics(make_cfg, vector_space):
    prepare = ObservationPreparation(make_cfg(normalize_input=True), spaces.Dict(obs=vector_space(1)))
    valids = torch.tensor([[True, False], [True, True]])
    prepare.update_normalizers({"obs": torch.tensor([[[3.0], [1e6]], [[3.0], [3.0]]])}, valids)
    normalizer = prepare.normalizers["obs"]
    assert normalizer.count == 4  # one imaginary sample at the start
    assert normalizer.mean.item() == pytest.approx(9 / 4)


def test_only_the_named_keys_are_normalised(make_cfg, vector_space):
    cfg = make_cfg(normalize_input=True, normalize_input_keys=["speed"])
    prepare = ObservationPreparation(cfg, spaces.Dict(obs=vector_space(2), speed=vector_space(1)))
    assert list(prepare.normalizers) == ["speed"]


def test_normalising_an_unknown_key_is_refused_with_the_known_ones(make_cfg, vector_space):
    cfg = make_cfg(normalize_input=True, normalize_input_keys=["sped"])
    with pytest.raises(ConfigError, match=r"--normalize_input_keys names 'sped', use some of: obs, speed"):
        ObservationPreparation(cfg, spaces.Dict(obs=vector_space(2), speed=vector_space(1)))

"""Settings of the learner do what they say: schedules, normalisers, optimisers, minibatches, losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_factory.algorithms.appo.batcher import Batch
from sample_factory.algorithms.appo.learner import Learner
from sample_factory.algorithms.appo.training_data import TrainingData, minibatches
from tests.training import v1_tags
from tests.training.hand_made import (
    VECTOR,
    equal,
    invalidate,
    make_batch,
    make_cfg,
    make_learner,
    no_callback,
    weights,
)


def _optimizer_lr(learner: Learner) -> float:
    return learner.state_dict()["optimizer"]["param_groups"][0]["lr"]


def _rates_of_sgd_steps(learner: Learner, iterations: int) -> list[float]:
    rates: list[float] = []
    for seed in range(iterations):
        learner.train(make_batch(learner, seed=seed), lambda: rates.append(_optimizer_lr(learner)))
    return rates


def test_a_constant_learning_rate_reaches_the_optimiser():
    learner = make_learner(make_cfg(learning_rate=0.004, ppo_epochs=2))
    assert _rates_of_sgd_steps(learner, 1) == [0.004, 0.004]


def test_a_linearly_decaying_rate_reaches_the_optimiser_and_ends_at_zero():
    # 2 epochs of 1 minibatch of 48 frames: 4 iterations make 8 SGD steps.
    cfg = make_cfg(
        learning_rate=0.008, ppo_epochs=2, lr_schedule="linear_decay", train_for_env_steps=192, batch_size=48
    )
    learner = make_learner(cfg)
    expected = [0.008 * (1 - i / 8) for i in range(8)]
    assert _rates_of_sgd_steps(learner, 4) == pytest.approx(expected)
    assert learner._lr_schedule.current_lr() == 0.0


def test_frames_skipped_by_the_environment_shorten_the_linear_decay():
    cfg = make_cfg(lr_schedule="linear_decay", train_for_env_steps=4 * 192, learning_rate=0.008)
    cfg.env_frameskip = 4
    assert _rates_of_sgd_steps(make_learner(cfg), 3) == pytest.approx([0.008, 0.006, 0.004])


def test_a_policy_that_moves_too_far_lowers_the_rate_after_each_minibatch():
    # The made-up batch comes from another policy, so the divergence is far above the threshold.
    cfg = make_cfg(lr_schedule="kl_adaptive_minibatch", learning_rate=0.009, num_batches_per_iteration=2)
    rates = _rates_of_sgd_steps(make_learner(cfg), 1)
    assert rates == pytest.approx([0.009, 0.006])


def test_the_same_schedule_by_epoch_waits_for_the_end_of_the_epoch():
    cfg = make_cfg(
        lr_schedule="kl_adaptive_epoch", learning_rate=0.009, num_batches_per_iteration=2, ppo_epochs=2
    )
    assert _rates_of_sgd_steps(make_learner(cfg), 1) == pytest.approx([0.009, 0.009, 0.006, 0.006])


def test_a_policy_that_hardly_moves_raises_the_rate():
    learner = make_learner(make_cfg(lr_schedule="kl_adaptive_minibatch", learning_rate=0.001))
    batch = make_batch(learner)
    with torch.no_grad():
        output = learner.model.evaluate(
            {"obs": torch.from_numpy(batch.obs["obs"])},
            torch.from_numpy(batch.arrays["rnn_states"][:, 0]),
            torch.from_numpy(batch.arrays["dones"]),
        )
    batch.arrays["outputs"][..., 1:4] = output.action_params[:, :-1].numpy()
    learner.train(batch, no_callback)
    assert learner._lr_schedule.current_lr() == pytest.approx(0.0015)


def _statistics(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the values and one imaginary sample of mean 0 and variance 1."""
    count = len(values) + 1
    mean = values.sum(axis=0) / count
    second_moment = ((values**2).sum(axis=0) + 1.0) / count
    return mean, second_moment - mean**2


def test_observation_statistics_are_those_of_valid_steps():
    learner = make_learner(make_cfg(normalize_input=True))
    batch = make_batch(learner)
    batch.obs["obs"] += np.array([3.0, -2.0, 0.0], np.float32)
    invalidate(batch, [(0, 0), (3, 4)])
    learner.train(batch, no_callback)
    valid = batch.arrays["policy_ids"] == 0
    mean, variance = _statistics(batch.obs["obs"][:, :-1][valid].astype(np.float64))
    normalizer = learner.model.obs_normalizers["obs"]
    assert float(normalizer.count) == 47.0
    np.testing.assert_allclose(normalizer.mean.numpy(), mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(normalizer.var.numpy(), variance, rtol=1e-5)


def test_return_statistics_are_those_of_the_targets_of_valid_steps():
    learner = make_learner(make_cfg(normalize_returns=True, with_vtrace=False, gae_lambda=0.0, gamma=0.5))
    batch = make_batch(learner, done_probability=0.0)
    batch.arrays["dones"][:] = True  # with lambda 0 the target of a last step is its reward
    invalidate(batch, [(0, 0), (3, 4)])
    learner.train(batch, no_callback)
    valid = batch.arrays["policy_ids"] == 0
    mean, variance = _statistics(batch.arrays["rewards"][valid].astype(np.float64))
    normalizer = learner.model.returns_normalizer
    assert normalizer is not None
    assert float(normalizer.count) == 47.0
    np.testing.assert_allclose(float(normalizer.mean), mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(float(normalizer.var), variance, rtol=1e-4)


@pytest.mark.parametrize("with_vtrace", [True, False], ids=["vtrace", "gae"])
def test_with_normalised_returns_values_approach_returns_of_any_scale(with_vtrace):
    cfg = make_cfg(
        normalize_returns=True, with_vtrace=with_vtrace, gamma=0.0, learning_rate=0.01, ppo_clip_value=10.0
    )
    learner = make_learner(cfg)
    for seed in range(100):
        batch = make_batch(learner, seed=seed)
        batch.arrays["rewards"][:] = 500.0 + 10.0 * np.sign(batch.obs["obs"][:, :-1, 0])
        learner.train(batch, no_callback)
    obs = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    with torch.no_grad():
        values = learner.model.act({"obs": obs}, torch.zeros(2, 1)).values
    assert values.tolist() == pytest.approx([510.0, 490.0], abs=5.0)


@pytest.mark.parametrize("optimizer", ["adam", "lamb"])
def test_both_optimisers_bring_the_value_loss_down(optimizer):
    cfg = make_cfg(optimizer=optimizer, with_vtrace=False, learning_rate=0.02, gamma=0.0, ppo_clip_value=10.0)
    learner = make_learner(cfg)
    batch = make_batch(learner)
    batch.arrays["rewards"][:] = batch.obs["obs"][:, :-1, 0]  # something there is to learn
    losses = [
        learner.train(batch, no_callback, with_statistics=True).scalars["value_loss"] for _ in range(30)
    ]
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("recurrence", [1, 3, 6])
@pytest.mark.parametrize("use_rnn", [True, False], ids=["gru", "feed_forward"])
def test_with_gae_the_last_observation_may_lie_with_the_others_or_apart(use_rnn, recurrence):
    learners = []
    for final_apart in (False, True):
        learner = make_learner(make_cfg(with_vtrace=False, use_rnn=use_rnn, recurrence=recurrence))
        batch = make_batch(learner)
        if final_apart:
            steps = {key: np.ascontiguousarray(array[:, :-1]) for key, array in batch.obs.items()}
            batch = Batch(batch.arrays, steps, batch.final_obs)
        learner.train(batch, no_callback)
        learners.append(learner)
    assert equal(*map(weights, learners))
    assert not equal(weights(learners[0]), weights(make_learner(learners[0].cfg)))


def test_training_stops_an_iteration_early_when_the_policy_loss_stands_still():
    learner = make_learner(make_cfg(ppo_epochs=10, learning_rate=1e-12))
    assert learner.train(make_batch(learner), no_callback).sgd_steps == 2


def test_every_epoch_takes_every_minibatch():
    learner = make_learner(make_cfg(ppo_epochs=3, num_batches_per_iteration=4, batch_size=12, recurrence=6))
    versions: list[int] = []
    result = learner.train(make_batch(learner), lambda: versions.append(learner.policy_version))
    assert versions == list(range(1, 13))
    assert result.sgd_steps == 12


def _numbered(count: int) -> TrainingData:
    numbers = torch.arange(float(count))[:, None].expand(count, 2).clone()
    fields: dict[str, Any] = dict.fromkeys(
        ("actions", "action_params", "log_probs", "values", "rewards", "dones", "time_outs", "valids"),
        numbers,
    )
    return TrainingData(
        obs={"obs": numbers}, rnn_states=numbers, advantages=numbers, targets=numbers, **fields
    )


@pytest.mark.parametrize("shuffle", [True, False])
def test_an_epoch_contains_every_segment_exactly_once(shuffle):
    parts = list(minibatches(_numbered(12), 3, shuffle, torch.Generator().manual_seed(0)))
    found = torch.cat([part.rewards[:, 0] for part in parts]).tolist()
    assert [part.num_segments for part in parts] == [4, 4, 4]
    assert sorted(found) == list(range(12))
    assert (found == list(range(12))) is not shuffle


def test_observations_and_states_are_shuffled_along_with_their_steps():
    for part in minibatches(_numbered(12), 3, True, torch.Generator().manual_seed(0)):
        assert torch.equal(part.obs["obs"], part.rewards)
        assert torch.equal(part.rnn_states, part.rewards)


def _weights_after(seed: int, **changes: Any) -> dict[str, torch.Tensor]:
    cfg = make_cfg(num_batches_per_iteration=4, batch_size=12, ppo_epochs=2, **changes)
    learner = make_learner(cfg, seed=0)
    learner._generator.manual_seed(seed)
    learner.train(make_batch(learner), no_callback)
    return weights(learner)


def test_shuffling_repeats_itself_with_the_same_seed():
    assert equal(_weights_after(3), _weights_after(3))


def test_shuffling_differs_with_another_seed():
    assert not equal(_weights_after(3), _weights_after(4))


def test_without_shuffling_the_seed_does_not_matter():
    assert equal(_weights_after(3, shuffle_minibatches=False), _weights_after(4, shuffle_minibatches=False))


def test_a_kl_loss_keeps_the_policy_closer_to_the_one_that_acted():
    divergences = []
    for coeff in (0.0, 10.0):
        learner = make_learner(make_cfg(kl_loss_coeff=coeff, ppo_epochs=10, learning_rate=0.01))
        batch = make_batch(learner)
        batch.arrays["outputs"][..., 1:4] = [1.0, 0.0, -1.0]  # a policy that the network can come close to
        for _ in range(5):
            result = learner.train(batch, no_callback, with_statistics=True)
        divergences.append(result.scalars["kl_divergence"])
    assert divergences[1] < 0.5 * divergences[0]


def test_the_cpc_loss_is_trained_reported_and_teaches_the_network():
    changes = {"use_rnn": True, "recurrence": 6, "cpc_forward_steps": 3}
    with_cpc = make_learner(make_cfg(use_cpc=True, **changes))
    without_cpc = make_learner(make_cfg(**changes))
    assert equal(weights(with_cpc), weights(without_cpc))
    before = [p.clone() for p in with_cpc._aux_parameters()]
    result = with_cpc.train(make_batch(with_cpc), no_callback, with_statistics=True)
    without_cpc.train(make_batch(without_cpc), no_callback)
    assert not any(torch.equal(a, b) for a, b in zip(before, with_cpc._aux_parameters(), strict=True))
    assert not equal(weights(with_cpc), weights(without_cpc))
    assert result.scalars["aux_loss"] > 0


@pytest.mark.parametrize("rnn_type", ["gru", "lstm"])
def test_separate_actor_and_critic_with_memory_both_learn(rnn_type):
    learner = make_learner(
        make_cfg(use_rnn=True, rnn_type=rnn_type, actor_critic_share_weights=False, ppo_epochs=2)
    )
    before = weights(learner)
    learner.train(make_batch(learner), no_callback)
    unchanged = [name for name, tensor in weights(learner).items() if torch.equal(tensor, before[name])]
    assert unchanged == []


SPACES = {
    "an image and a vector": spaces.Dict(
        {"obs": spaces.Box(0, 255, (3, 40, 40), np.uint8), "speed": spaces.Box(-1, 1, (2,), np.float32)}
    ),
    "two vectors": spaces.Dict({**VECTOR.spaces, "more": spaces.Box(-1, 1, (5,), np.float32)}),
    "bits": spaces.Dict({"obs": spaces.MultiBinary(5)}),
}


@pytest.mark.parametrize("with_vtrace", [True, False], ids=["vtrace", "gae"])
@pytest.mark.parametrize("name", SPACES)
def test_every_kind_of_observation_is_trained_on(name, with_vtrace):
    space = SPACES[name]
    cfg = make_cfg(
        with_vtrace=with_vtrace,
        encoder_type="conv",
        encoder_subtype="convnet_simple",
        encoder_extra_fc_layers=1,
        normalize_input=True,
        use_rnn=True,
    )
    learner = make_learner(cfg, space)
    before = weights(learner)
    result = learner.train(make_batch(learner, space), no_callback)
    assert result.sgd_steps == 1
    changed = {n for n, tensor in weights(learner).items() if not torch.equal(tensor, before[n])}
    assert changed == before.keys()


ACTION_SPACES = [
    spaces.MultiDiscrete([3, 4]),
    spaces.MultiBinary(3),
    spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (2,), np.float32))),
    spaces.Box(-1, 1, (2,), np.float32),
]


@pytest.mark.parametrize("space", ACTION_SPACES, ids=lambda s: type(s).__name__)
def test_every_kind_of_action_is_trained_on(space):
    learner = make_learner(make_cfg(kl_loss_coeff=0.1), VECTOR, space)
    result = learner.train(make_batch(learner), no_callback, with_statistics=True)
    assert result.sgd_steps == 1
    assert all(np.isfinite(value) for value in result.scalars.values())


def test_symmetric_kl_can_take_the_place_of_entropy():
    learner = make_learner(make_cfg(exploration_loss="symmetric_kl", exploration_loss_coeff=0.5))
    scalars = learner.train(make_batch(learner), no_callback, with_statistics=True).scalars
    assert scalars["exploration_loss"] > 0.0


def test_the_statistics_have_the_names_of_v1():
    learner = make_learner(make_cfg())
    assert set(v1_tags.TRAIN) <= learner.train(make_batch(learner), no_callback, True).scalars.keys()


def test_real_valued_actions_bring_statistics_of_their_own():
    learner = make_learner(make_cfg(), VECTOR, ACTION_SPACES[-1])
    assert set(v1_tags.TRAIN_GAUSSIAN) <= learner.train(make_batch(learner), no_callback, True).scalars.keys()


def test_statistics_of_a_known_minibatch_are_known_numbers():
    learner = make_learner(make_cfg(with_vtrace=False, gae_lambda=0.0, gamma=0.0, ppo_clip_ratio=0.1))
    batch: Batch = make_batch(learner)
    batch.arrays["dones"][:] = True
    batch.arrays["outputs"][..., -1] = 0.0
    batch.arrays["rewards"][:] = np.linspace(-1.0, 2.0, 48).reshape(8, 6)
    scalars = learner.train(batch, no_callback, with_statistics=True).scalars
    assert scalars["adv_min"] == pytest.approx(-1.0)
    assert scalars["adv_max"] == pytest.approx(2.0)
    assert scalars["adv_std"] == pytest.approx(np.linspace(-1.0, 2.0, 48).std(), rel=1e-5)

"""Training a small network in numpy gives what torch's layers, differentiation and Adam give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_factory.algorithms.appo import objective as objectives
from sample_factory.algorithms.appo.learner import Learner
from sample_factory.model import mlp
from sample_factory.model.checkpoint_format import decode, encode
from sample_factory.model.numpy_training import NumpyTraining
from sample_factory.rl.optimizers import FlatAdam
from tests.training.hand_made import (
    THREE_ACTIONS,
    VECTOR,
    gradients,
    invalidate,
    make_batch,
    make_cfg,
    make_learner,
    no_callback,
    weights,
)

NUMBERS = spaces.Box(-1, 1, (2,), np.float32)
GAE = {"with_vtrace": False}
NORMALISED = {"normalize_input": True, "normalize_returns": True}
SEVERAL = {"num_batches_per_iteration": 4, "batch_size": 12}

CASES: dict[str, dict[str, Any]] = {
    "GAE": GAE,
    "GAE, single steps": GAE | {"recurrence": 1},
    "GAE, normalised": GAE | NORMALISED,
    "GAE, normalised, several minibatches": GAE | NORMALISED | SEVERAL | {"recurrence": 3},
    "V-trace": {},
    "V-trace, normalised": NORMALISED,
    "V-trace, normalised, several minibatches": NORMALISED | SEVERAL,
    "centred and scaled": {"obs_subtract_mean": 0.5, "obs_scale": 3.0},
    "no exploration loss": GAE | {"exploration_loss_coeff": 0.0},
    "small gradient norm": GAE | {"max_grad_norm": 0.01},
    "no limit on the gradient norm": {"max_grad_norm": 0.0},
    "adaptive rate": GAE | {"lr_schedule": "kl_adaptive_minibatch"},
    "deviations apart": GAE | {"adaptive_stddev": False},
    "a decoder": {"decoder_mlp_layers": [8], "nonlinearity": "tanh"},
    "relu": {"nonlinearity": "relu"},
}


class InTorch:
    """Makes learners that leave everything to torch, and lets them train so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self._monkeypatch = monkeypatch

    def __enter__(self) -> None:
        self._monkeypatch.setattr(NumpyTraining, "fits", lambda model: False)
        self._monkeypatch.setattr(mlp, "trains_on_cpu", lambda x: False)
        self._monkeypatch.setattr(objectives, "can_derive_losses", lambda *_: False)

    def __exit__(self, *_: object) -> None:
        self._monkeypatch.undo()


@pytest.fixture
def in_torch(monkeypatch: pytest.MonkeyPatch) -> InTorch:
    return InTorch(monkeypatch)


def _train(learner: Learner, seeds: range) -> dict[str, float]:
    """The statistics of the last iteration."""
    scalars = {}
    for seed in seeds:
        batch = make_batch(learner, seed=seed)
        batch.obs["obs"] *= 3.0
        batch.arrays["policy_versions"][:] = learner.policy_version
        batch.arrays["dones"][2, 3] = batch.arrays["time_outs"][2, 3] = True
        invalidate(batch, [(0, 0), (3, 4), (3, 5)])
        scalars = learner.train(batch, no_callback, with_statistics=True).scalars
    return scalars


def _assert_close(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(
            found[name], tensor, rtol=2e-3, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


def _assert_same(learner: Learner, reference: Learner) -> None:
    _assert_close(weights(learner), weights(reference))
    _assert_close(gradients(learner), gradients(reference))
    _assert_close(learner.moments(), reference.moments())
    assert learner.policy_version == reference.policy_version


@pytest.mark.parametrize("action_space", [THREE_ACTIONS, NUMBERS], ids=["choice", "numbers"])
@pytest.mark.parametrize("case", CASES)
def test_several_iterations_are_those_of_torch(case: str, action_space: spaces.Space, in_torch: InTorch):
    cfg = make_cfg(**({"ppo_epochs": 3, "exploration_loss": "entropy"} | CASES[case]))
    learner = make_learner(cfg, action_space=action_space)
    assert learner._network is not None
    scalars = _train(learner, range(4))
    with in_torch:
        reference = make_learner(cfg, action_space=action_space)
        assert reference._network is None
        expected = _train(reference, range(4))
    _assert_same(learner, reference)
    assert scalars == pytest.approx(expected, rel=5e-3, abs=1e-4)


def test_the_divergence_from_the_uniform_policy_is_that_of_torch(in_torch: InTorch):
    cfg = make_cfg(exploration_loss="symmetric_kl", exploration_loss_coeff=0.5, ppo_epochs=3)
    learner = make_learner(cfg)
    _train(learner, range(3))
    with in_torch:
        reference = make_learner(cfg)
        _train(reference, range(3))
    _assert_same(learner, reference)


def test_a_setting_that_numpy_does_not_cover_may_come_and_go(in_torch: InTorch):
    def train_all(learner: Learner) -> None:
        for number, coeff in enumerate([0.0, 0.5, 0.0]):
            learner.set_hyper_parameters({"kl_loss_coeff": coeff})
            _train(learner, range(2 * number, 2 * number + 2))

    learner = make_learner(make_cfg(ppo_epochs=2, **NORMALISED))
    train_all(learner)
    with in_torch:
        reference = make_learner(make_cfg(ppo_epochs=2, **NORMALISED))
        train_all(reference)
    _assert_same(learner, reference)


@pytest.mark.parametrize("numpy_comes_first", [True, False])
def test_checkpoints_go_from_one_way_to_the_other(numpy_comes_first: bool, in_torch: InTorch):
    cfg = make_cfg(ppo_epochs=2, **GAE, **NORMALISED)
    ours = make_learner(cfg)
    with in_torch:
        theirs = make_learner(cfg)
    assert isinstance(ours._optimizer, FlatAdam)
    assert not isinstance(theirs._optimizer, FlatAdam)
    if numpy_comes_first:
        _train(ours, range(2))
        theirs.load_state_dict(decode(encode({"state": ours.state_dict()}))["state"])
        with in_torch:
            _train(theirs, range(2, 4))
        _train(ours, range(2, 4))
    else:
        with in_torch:
            _train(theirs, range(2))
        ours.load_state_dict(decode(encode({"state": theirs.state_dict()}))["state"])
        _train(ours, range(2, 4))
        with in_torch:
            _train(theirs, range(2, 4))
    _assert_same(ours, theirs)


@pytest.mark.parametrize(
    "changes",
    [
        {"use_rnn": True},
        {"use_cpc": True, "use_rnn": True},
        {"use_cpc": True},
        {"optimizer": "lamb"},
        {"actor_critic_share_weights": False},
        {"compile_model": True},
    ],
    ids=str,
)
def test_everything_else_is_left_to_torch(changes: dict[str, Any]):
    assert make_learner(make_cfg(**changes), VECTOR)._network is None


def test_observations_are_prepared_once_for_all_epochs(monkeypatch: pytest.MonkeyPatch):
    learner = make_learner(make_cfg(ppo_epochs=4, **GAE, **NORMALISED))
    sizes: list[int] = []
    normalizer = learner.model.obs_normalizers["obs"]
    normalize = normalizer.normalize
    monkeypatch.setattr(normalizer, "normalize", lambda x: sizes.append(x.numel()) or normalize(x))
    batch = make_batch(learner)
    assert learner.train(batch, no_callback).sgd_steps == 4
    assert sizes == [batch.obs["obs"].size, batch.final_obs["obs"].size]

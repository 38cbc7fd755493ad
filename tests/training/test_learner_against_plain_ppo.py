"""One call of `Learner.train` computes what a plain step-by-step implementation computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

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
from tests.training.plain_ppo import PlainPpo

MASKED = spaces.Dict({**VECTOR.spaces, "action_mask": spaces.Box(0, 1, (3,), np.int8)})
TWO_REALS = spaces.Box(-1.0, 1.0, (2,), np.float32)

GRU = {"use_rnn": True, "rnn_type": "gru"}
LSTM = {"use_rnn": True, "rnn_type": "lstm"}
GAE = {"with_vtrace": False}
VTRACE = {"with_vtrace": True}

CASES = {
    "vtrace feed-forward": VTRACE,
    "vtrace GRU": VTRACE | GRU,
    "vtrace LSTM": VTRACE | LSTM,
    "vtrace two layers of LSTM": VTRACE | LSTM | {"rnn_num_layers": 2},
    "vtrace with other truncations": VTRACE | {"vtrace_rho": 0.8, "vtrace_c": 0.6},
    "GAE feed-forward, single steps": GAE | {"recurrence": 1},
    "GAE GRU, whole trajectories": GAE | GRU,
    "GAE GRU, segments of three steps": GAE | GRU | {"recurrence": 3},
    "GAE LSTM, segments of two steps": GAE | LSTM | {"recurrence": 2},
    "GAE several epochs": GAE | {"ppo_epochs": 3},
    "vtrace several epochs": VTRACE | GRU | {"ppo_epochs": 3},
    "GAE several minibatches": GAE
    | GRU
    | {"recurrence": 3, "num_batches_per_iteration": 2, "shuffle_minibatches": False, "ppo_epochs": 2},
    "vtrace several minibatches": VTRACE
    | {"num_batches_per_iteration": 2, "shuffle_minibatches": False, "ppo_epochs": 2},
    "separate actor and critic": VTRACE | GRU | {"actor_critic_share_weights": False},
    "KL loss": GAE | {"kl_loss_coeff": 0.7},
    "tight clipping": GAE | {"ppo_clip_ratio": 0.02, "ppo_clip_value": 0.05, "ppo_epochs": 2},
    "small gradient norm": VTRACE | {"max_grad_norm": 0.01},
    "no limit on the gradient norm": VTRACE | {"max_grad_norm": 0.0},
}


def _check(
    changes: dict[str, Any], obs_space: spaces.Dict = VECTOR, action_space: spaces.Space = THREE_ACTIONS
) -> None:
    learner = make_learner(make_cfg(**changes), obs_space, action_space)
    batch = make_batch(learner, obs_space)
    invalidate(batch, [(0, 3), (1, 0), (2, 5), (3, 1), (3, 2)])
    batch.arrays["dones"][0, 3] = True  # a reset after a time-out: its row holds the final observation
    batch.arrays["dones"][4, 2] = batch.arrays["time_outs"][4, 2] = True
    plain = PlainPpo(learner).train(batch)
    before = weights(learner)
    result = learner.train(batch, no_callback, with_statistics=True)
    for name, loss in plain.losses.items():
        assert result.scalars[name] == pytest.approx(loss, rel=2e-4, abs=2e-6), name
    for name, gradient in gradients(learner).items():
        torch.testing.assert_close(
            gradient, plain.gradients[name], rtol=2e-3, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}"
        )
    moved = max(float((weights(learner)[name] - tensor).abs().max()) for name, tensor in before.items())
    assert moved > 1e-4
    for name, tensor in plain.model.state_dict().items():
        torch.testing.assert_close(weights(learner)[name], tensor, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_losses_gradients_and_weights_equal_those_of_a_plain_implementation(case):
    _check(CASES[case])


@pytest.mark.parametrize("returns", [VTRACE, GAE], ids=["vtrace", "gae"])
def test_the_same_holds_with_forbidden_actions(returns):
    _check(returns, MASKED)


@pytest.mark.parametrize("returns", [VTRACE, GAE], ids=["vtrace", "gae"])
def test_the_same_holds_for_real_valued_actions(returns):
    _check(returns | {"kl_loss_coeff": 0.1}, VECTOR, TWO_REALS)


def test_the_same_holds_when_old_steps_are_masked():
    learner = make_learner(make_cfg(max_policy_lag=3))
    learner.policy_version = 5
    batch = make_batch(learner)
    batch.arrays["policy_versions"][:] = np.arange(6)  # lags 5 to 0: the first three are too old
    plain = PlainPpo(learner).train(batch)
    result = learner.train(batch, no_callback, with_statistics=True)
    assert result.scalars["loss"] == pytest.approx(plain.losses["loss"], rel=2e-4)
    assert result.scalars["valids_fraction"] == pytest.approx(0.5)

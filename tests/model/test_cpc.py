"""The CPC|A loss predicts within an episode, learns, and teaches the network below it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from sample_factory.config.errors import ConfigError
from sample_factory.model.cpc import CpcLoss, _is_reachable

N, T, D, E = 4, 12, 6, 5


@pytest.fixture
def make_loss(make_cfg):
    def make(space: spaces.Space | None = None, **changes) -> CpcLoss:
        return CpcLoss(make_cfg(**changes), space or spaces.Discrete(3), D, E)

    return make


def _inputs(rows: int = T + 1) -> dict[str, Tensor]:
    return {
        "core_outputs": torch.randn(N, rows, D, requires_grad=True),
        "encodings": torch.randn(N, rows, E, requires_grad=True),
        "actions": torch.randint(0, 3, (N, T, 1)).float(),
        "dones": torch.zeros(N, T, dtype=torch.bool),
        "valids": torch.ones(N, T, dtype=torch.bool),
    }


@pytest.mark.parametrize("rows", [T, T + 1])
def test_a_generator_makes_the_loss_repeatable(make_loss, rows):
    loss, inputs = make_loss(), _inputs(rows)
    values = [loss(**inputs, generator=torch.Generator().manual_seed(seed)).item() for seed in (1, 1, 2)]
    assert values[0] == values[1]
    assert values[0] != values[2]


def test_an_undecided_classifier_pays_a_tenth_of_twice_log_two(make_loss):
    loss = make_loss()
    for parameter in loss.classify.parameters():
        torch.nn.init.zeros_(parameter)
    assert loss(**_inputs()).item() == pytest.approx(0.1 * 2 * np.log(2), rel=1e-5)


def test_gradients_reach_the_core_the_encoder_and_every_weight(make_loss):
    loss, inputs = make_loss(), _inputs()
    loss(**inputs, generator=torch.Generator().manual_seed(0)).backward()
    assert inputs["core_outputs"].grad.abs().sum() > 0
    assert inputs["encodings"].grad.abs().sum() > 0
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in loss.parameters())


def test_starts_and_horizons_are_drawn_as_often_as_the_settings_say(make_loss, monkeypatch):
    loss = make_loss(cpc_time_subsample=5, cpc_forward_subsample=3, cpc_forward_steps=4)
    shapes = []
    original = loss._logits
    monkeypatch.setattr(
        loss, "_logits", lambda beliefs, *rest: shapes.append(beliefs.shape) or original(beliefs, *rest)
    )
    loss(**_inputs())
    assert shapes == [(N, 5, 3, D)]


def _reachable_slowly(dones: Tensor, valids: Tensor, n: int, start: int, target: int, num_rows: int) -> bool:
    if target >= num_rows:
        return False
    if any(dones[n, t] or not valids[n, t] for t in range(start, target)):
        return False
    return target >= valids.shape[1] or bool(valids[n, target])


@pytest.mark.parametrize("num_rows", [T, T + 1])
def test_targets_are_reachable_within_one_episode_of_valid_steps_only(num_rows):
    dones, valids = torch.rand(N, T) < 0.15, torch.rand(N, T) < 0.85
    starts = torch.arange(num_rows - 1)
    targets = starts[:, None] + torch.arange(1, 9)
    reachable = _is_reachable(dones, valids, starts, targets, num_rows)
    for n in range(N):
        for s, start in enumerate(starts.tolist()):
            for h, target in enumerate(targets[s].tolist()):
                expected = _reachable_slowly(dones, valids, n, start, target, num_rows)
                assert reachable[n, s, h] == expected, (n, start, target)
    assert reachable.any()


@pytest.mark.parametrize("flag", ["dones", "valids"])
def test_what_cannot_be_predicted_does_not_count(make_loss, flag):
    inputs = _inputs()
    inputs[flag] = torch.full((N, T), flag == "dones")
    loss = make_loss()(**inputs)
    loss.backward()
    assert loss.item() == 0.0
    assert not inputs["encodings"].grad.any()


def test_only_actions_up_to_the_target_matter(make_loss):
    loss, inputs = make_loss(cpc_forward_steps=3, cpc_forward_subsample=3), _inputs()
    starts, horizons = torch.tensor([2]), torch.tensor([1, 2, 3])
    initial = inputs["core_outputs"][:, starts]
    before = loss._beliefs(initial, inputs["actions"], starts, horizons)
    inputs["actions"][:, 3] = 2 - inputs["actions"][:, 3].clamp(max=1)
    after = loss._beliefs(initial, inputs["actions"], starts, horizons)
    same = [torch.equal(before[:, 0, h], after[:, 0, h]) for h in range(3)]
    assert same == [True, False, False]


def test_the_loss_falls_where_the_future_follows_from_the_actions(make_loss):
    loss = make_loss(spaces.Tuple([spaces.Discrete(3), spaces.Discrete(2)]))
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(150):
        actions = torch.stack([torch.randint(0, n, (16, T), generator=generator) for n in (3, 2)], dim=-1)
        encodings = torch.zeros(16, T + 1, E)
        # What is seen next is the action just taken.
        encodings[:, 1:, :3] = torch.nn.functional.one_hot(actions[..., 0], 3)
        encodings[:, 1:, 3:] = torch.nn.functional.one_hot(actions[..., 1], 2)
        value = loss(
            core_outputs=torch.zeros(16, T + 1, D),
            encodings=encodings,
            actions=actions.float(),
            dones=torch.zeros(16, T, dtype=torch.bool),
            valids=torch.ones(16, T, dtype=torch.bool),
            generator=generator,
        )
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    assert np.mean(losses[-10:]) < 0.6 * np.mean(losses[:10])


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (2,), np.float32),
        spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (1,), np.float32)]),
    ],
)
def test_continuous_actions_are_refused(make_loss, space):
    with pytest.raises(ConfigError, match=r"--use_cpc=True needs discrete actions.*use --use_cpc=False"):
        make_loss(space)


def test_one_step_trajectories_without_a_next_observation_cost_nothing(make_loss):
    inputs = {key: value[:, :1] for key, value in _inputs(T).items()}
    assert make_loss()(**inputs).item() == 0.0


def test_the_true_encoding_is_never_among_the_false_ones(make_loss):
    loss = make_loss()
    belief, encodings = torch.randn(1, D), torch.randn(2, E)
    _, false_logits = loss._logits(belief, encodings, torch.tensor([0]), None)
    logit_of_the_other, _ = loss._logits(belief, encodings, torch.tensor([1]), None)
    torch.testing.assert_close(false_logits, logit_of_the_other.expand(1, 20))

"""Lamb against a plain numpy implementation and numbers worked out by hand."""

import numpy as np
import pytest
import torch

from sample_factory.rl.optimizers import Lamb


def numpy_lamb(w, grads, *, lr, beta1, beta2, eps, decay, max_norm):
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(grads, start=1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        update = (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps) + decay * w
        weight_norm, update_norm = min(np.linalg.norm(w), max_norm), np.linalg.norm(update)
        trust = weight_norm / update_norm if weight_norm > 0 and update_norm > 0 else 1.0
        w = w - lr * trust * update
    return w


def apply(optimizer: torch.optim.Optimizer, weights: torch.Tensor, grads: list[np.ndarray]) -> None:
    for grad in grads:
        weights.grad = torch.from_numpy(grad)
        optimizer.step()


def test_first_step_by_hand():
    # After bias correction the first direction is the sign of the gradient: (1, -1), of length sqrt(2).
    # The weights (3, 4) have length 5, so each moves by 0.1 * 5 / sqrt(2).
    weights = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    weights.grad = torch.tensor([0.2, -7.0])
    Lamb([weights], lr=0.1, eps=0.0).step()
    move = 0.5 / 2**0.5
    torch.testing.assert_close(weights.data, torch.tensor([3.0 - move, 4.0 + move]))


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0])
def test_equals_the_numpy_implementation_over_many_steps(decay, scale):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(4, 3)) * scale
    grads = [rng.normal(size=(4, 3)) for _ in range(20)]
    weights = torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimizer = Lamb([weights], lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=decay)
    apply(optimizer, weights, grads)
    expected = numpy_lamb(start, grads, lr=0.01, beta1=0.8, beta2=0.95, eps=1e-6, decay=decay, max_norm=10.0)
    np.testing.assert_allclose(weights.detach().numpy(), expected, rtol=1e-10)


def test_weights_that_are_zero_can_move():
    weights = torch.nn.Parameter(torch.zeros(2))
    weights.grad = torch.tensor([1.0, -1.0])
    Lamb([weights], lr=0.1, eps=0.0).step()
    torch.testing.assert_close(weights.data, torch.tensor([-0.1, 0.1]))


def test_a_zero_gradient_moves_nothing():
    weights = torch.nn.Parameter(torch.ones(2))
    weights.grad = torch.zeros(2)
    Lamb([weights], lr=0.1).step()
    assert weights.tolist() == [1.0, 1.0]


def test_parameters_without_gradient_are_left_alone():
    used, unused = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    used.grad = torch.ones(2)
    Lamb([used, unused], lr=0.1).step()
    assert unused.tolist() == [1.0, 1.0]
    assert used.tolist() != [1.0, 1.0]


def test_each_tensor_has_its_own_trust_ratio():
    small, large = torch.nn.Parameter(torch.full((4,), 0.01)), torch.nn.Parameter(torch.full((4,), 1.0))
    small.grad = large.grad = torch.ones(4)
    Lamb([small, large], lr=0.1).step()
    torch.testing.assert_close((0.01 - small.data) * 100, 1.0 - large.data, rtol=1e-4, atol=0)


def test_training_continues_from_a_saved_state_as_if_it_had_not_stopped():
    rng = np.random.default_rng(0)
    grads = [rng.normal(size=3) for _ in range(6)]
    straight = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    apply(Lamb([straight]), straight, grads)

    first = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    interrupted = Lamb([first])
    apply(interrupted, first, grads[:3])
    second = torch.nn.Parameter(first.detach().clone())
    resumed = Lamb([second])
    resumed.load_state_dict(interrupted.state_dict())
    apply(resumed, second, grads[3:])
    assert torch.equal(straight, second)


def test_finds_the_minimum_of_a_parabola():
    weights = torch.nn.Parameter(torch.tensor([4.0, -3.0]))
    optimizer = Lamb([weights], lr=0.02)
    for _ in range(300):
        optimizer.zero_grad()
        loss = (weights - torch.tensor([1.0, 2.0])).square().sum()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


def test_a_closure_is_evaluated_with_gradients_and_its_loss_returned():
    weights = torch.nn.Parameter(torch.tensor([2.0]))

    def closure() -> float:
        loss = weights.square().sum()
        loss.backward()
        return loss.item()

    assert Lamb([weights], lr=0.1).step(closure) == 4.0
    assert weights.item() < 2.0


@pytest.mark.parametrize("bad", [{"lr": -1.0}, {"eps": -1.0}, {"betas": (1.0, 0.9)}])
def test_impossible_settings_are_refused(bad):
    with pytest.raises(ValueError, match="Lamb needs"):
        Lamb([torch.nn.Parameter(torch.ones(1))], **bad)

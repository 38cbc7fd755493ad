"""Adam on flat arrays is torch's Adam: the same steps, the same state."""

import copy

import pytest
import torch

from sample_factory.rl.optimizers import FlatAdam

SHAPES = [(4, 3), (4,), (2, 4), (1,)]
SETTINGS = {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6}


def make_parameters():
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def make_flat(**changes):
    parameters = make_parameters()
    return FlatAdam(parameters, **(SETTINGS | changes)), parameters


def make_plain(**changes):
    parameters = make_parameters()
    return torch.optim.Adam(parameters, **(SETTINGS | changes), fused=True), parameters


def walk(optimizer, parameters, steps):
    """So many steps with gradients that depend on their number only."""
    for number in steps:
        generator = torch.Generator().manual_seed(number)
        optimizer.zero_grad(set_to_none=False)
        for parameter in parameters:
            gradient = torch.randn(parameter.shape, generator=generator)
            if parameter.grad is None:
                parameter.grad = gradient
            else:
                parameter.grad += gradient
        optimizer.step()


def assert_close(first, second):
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def tensors_of(optimizer):
    states = optimizer.state_dict()["state"]
    return [states[index][key] for index in sorted(states) for key in ("step", "exp_avg", "exp_avg_sq")]


def test_many_steps_are_those_of_torch():
    (flat, found), (plain, expected) = make_flat(), make_plain()
    walk(flat, found, range(20))
    walk(plain, expected, range(20))
    assert_close(found, expected)
    assert_close(tensors_of(flat), tensors_of(plain))


def test_changed_settings_count_from_the_next_step():
    (flat, found), (plain, expected) = make_flat(), make_plain()
    for optimizer, parameters in ((flat, found), (plain, expected)):
        walk(optimizer, parameters, range(3))
        optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["betas"] = 0.1, (0.5, 0.7)
        walk(optimizer, parameters, range(3, 6))
    assert_close(found, expected)


def test_the_layout_of_the_state_is_that_of_torch():
    (flat, found), (plain, expected) = make_flat(), make_plain()
    assert flat.state_dict() == plain.state_dict()  # before the first step there is none
    walk(flat, found, range(1))
    walk(plain, expected, range(1))
    first, second = flat.state_dict(), plain.state_dict()
    assert first["param_groups"] == second["param_groups"]
    for index, state in second["state"].items():
        assert first["state"][index].keys() == state.keys()
        for key, tensor in state.items():
            other = first["state"][index][key]
            assert (other.shape, other.dtype) == (tensor.shape, tensor.dtype)


@pytest.mark.parametrize("make_first", [make_flat, make_plain])
@pytest.mark.parametrize("make_second", [make_flat, make_plain])
def test_each_goes_on_from_the_state_of_the_other(make_first, make_second):
    straight, expected = make_plain()
    walk(straight, expected, range(8))
    first, parameters = make_first()
    walk(first, parameters, range(4))
    second, continued = make_second()
    walk(second, continued, range(50, 53))  # something to forget
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for mine, theirs in zip(continued, parameters, strict=True):
        mine.data.copy_(theirs)
    walk(second, continued, range(4, 8))
    assert_close(continued, expected)


def test_a_state_that_is_loaded_is_copied_even_from_itself():
    flat, found = make_flat()
    walk(flat, found, range(3))
    before = copy.deepcopy(flat.state_dict()["state"])
    flat.load_state_dict(flat.state_dict())
    assert_close(tensors_of(flat), [s[k] for s in before.values() for k in ("step", "exp_avg", "exp_avg_sq")])
    source = flat.state_dict()
    other, moved = make_flat()
    other.load_state_dict(source)
    walk(other, moved, range(3, 5))
    assert float(source["state"][0]["step"]) == 3.0


def test_an_empty_state_forgets_everything():
    flat, found = make_flat()
    empty = copy.deepcopy(flat.state_dict())
    start = [parameter.detach().clone() for parameter in found]
    walk(flat, found, range(3))
    flat.load_state_dict(empty)
    assert flat.state_dict()["state"] == {}
    for parameter, value in zip(found, start, strict=True):
        parameter.data.copy_(value)
    walk(flat, found, range(2))
    plain, expected = make_plain()
    walk(plain, expected, range(2))
    assert_close(found, expected)


@pytest.mark.parametrize("limit", [0.5, 1e6, float("inf")])
def test_gradients_are_clipped_as_torch_does(limit):
    flat, found = make_flat()
    expected = make_parameters()
    for mine, theirs in zip(found, expected, strict=True):
        theirs.grad = torch.randn(theirs.shape)
        mine.grad.copy_(theirs.grad)
    norm = flat.clip_grad_norm(limit)
    assert norm == pytest.approx(float(torch.nn.utils.clip_grad_norm_(expected, limit)), rel=1e-5)
    assert_close([p.grad for p in found], [p.grad for p in expected])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_shows_in_the_norm(bad):
    flat, found = make_flat()
    found[1].grad[2] = bad
    assert not torch.isfinite(torch.tensor(flat.clip_grad_norm(1.0)))


def test_gradients_that_somebody_took_away_come_back():
    (flat, found), (plain, expected) = make_flat(), make_plain()
    for parameter in found:
        parameter.grad = None
    walk(flat, found, range(2))
    walk(plain, expected, range(2))
    assert_close(found, expected)

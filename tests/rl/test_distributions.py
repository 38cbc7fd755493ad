"""Action distributions against enumeration, `torch.distributions`, and frequencies of samples."""

import itertools
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor, distributions
from torch.autograd import gradcheck

from sample_factory.rl.distributions import make_distribution, num_action_parameters, num_actions

TUPLE = spaces.Tuple([spaces.Discrete(3), spaces.Discrete(2), spaces.Discrete(4)])
WITH_BITS = spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)])
MIXED = spaces.Tuple(
    [spaces.Box(-1, 1, (2,)), spaces.Discrete(3), spaces.Box(-1, 1, (1,)), spaces.Discrete(2)]
)
BOX = spaces.Box(-1, 1, (3,))
DISCRETE_SPACES = [
    spaces.Discrete(5),
    spaces.MultiDiscrete([3, 3]),
    spaces.MultiDiscrete([2, 5, 3]),
    spaces.MultiBinary(3),
    TUPLE,
    WITH_BITS,
]
ALL_SPACES = [*DISCRETE_SPACES, BOX, spaces.Tuple([BOX, BOX]), MIXED]


def head_choices(space: spaces.Space) -> list[int]:
    """Number of choices of each discrete column, from the space alone."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.tolist()
    if isinstance(space, spaces.MultiBinary):
        return [2] * int(space.n)
    return [n for member in space.spaces for n in head_choices(member)]


def all_actions(space: spaces.Space) -> Tensor:
    return torch.tensor(
        list(itertools.product(*(range(n) for n in head_choices(space)))), dtype=torch.float32
    )


def params_for(space: spaces.Space, seed: int, batch: int = 1) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(batch, num_action_parameters(space), generator=g) * 2


def enumerated(space: spaces.Space, params: Tensor, mask: Tensor | None = None) -> Tensor:
    """Log-probabilities of all actions for one row of parameters."""
    actions = all_actions(space)
    rows = len(actions)
    wide_mask = None if mask is None else mask.expand(rows, -1)
    return make_distribution(space, params.expand(rows, -1), wide_mask).log_prob(actions)


def test_probabilities_of_a_discrete_space_by_hand():
    # Weights 1, 2, 5 of 8.
    logits = torch.tensor([[1.0, 2.0, 5.0]]).log() + 3.0
    distribution = make_distribution(spaces.Discrete(3), logits)
    log_probs = [distribution.log_prob(torch.tensor([[a]])).item() for a in (0.0, 1.0, 2.0)]
    assert log_probs == pytest.approx([math.log(1 / 8), math.log(2 / 8), math.log(5 / 8)], abs=1e-6)


def test_entropy_and_kl_of_a_discrete_space_by_hand():
    # p = (1/4, 3/4), q = (1/2, 1/2).
    p = make_distribution(spaces.Discrete(2), torch.tensor([[0.25, 0.75]]).log())
    q = make_distribution(spaces.Discrete(2), torch.tensor([[0.0, 0.0]]))
    assert p.entropy().item() == pytest.approx(0.25 * math.log(4) + 0.75 * math.log(4 / 3), abs=1e-6)
    assert p.kl(q).item() == pytest.approx(0.25 * math.log(0.5) + 0.75 * math.log(1.5), abs=1e-6)
    symmetric = 0.5 * (
        0.25 * math.log(0.5) + 0.75 * math.log(1.5) + 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    )
    assert p.symmetric_kl_with_uniform().item() == pytest.approx(symmetric, abs=1e-6)


def test_a_bit_with_logit_x_is_set_with_probability_sigmoid_x():
    distribution = make_distribution(spaces.MultiBinary(2), torch.tensor([[math.log(3.0), 0.0]]))
    assert distribution.log_prob(torch.tensor([[1.0, 0.0]])).exp().item() == pytest.approx(0.75 * 0.5)


def test_heads_of_different_sizes_use_their_own_logits():
    logits = torch.tensor([[0.2, 0.3, 0.5, 0.9, 0.1, 0.4, 0.3, 0.2, 0.1]]).log()
    distribution = make_distribution(TUPLE, logits)
    assert distribution.log_prob(torch.tensor([[2.0, 1.0, 0.0]])).exp().item() == pytest.approx(
        0.5 * 0.1 * 0.4
    )


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(DISCRETE_SPACES), st.integers(0, 10**6))
def test_probabilities_of_all_actions_sum_to_one(space, seed):
    total = enumerated(space, params_for(space, seed)).exp().sum()
    assert total.item() == pytest.approx(1.0, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(DISCRETE_SPACES), st.integers(0, 10**6))
def test_entropy_equals_enumeration(space, seed):
    params = params_for(space, seed)
    log_probs = enumerated(space, params)
    expected = -(log_probs.exp() * log_probs).sum()
    torch.testing.assert_close(make_distribution(space, params).entropy()[0], expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(DISCRETE_SPACES), st.integers(0, 10**6))
def test_kl_equals_enumeration(space, seed):
    p, q = params_for(space, seed), params_for(space, seed + 1)
    log_p, log_q = enumerated(space, p), enumerated(space, q)
    expected = (log_p.exp() * (log_p - log_q)).sum()
    actual = make_distribution(space, p).kl(make_distribution(space, q))[0]
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(DISCRETE_SPACES), st.integers(0, 10**6))
def test_symmetric_kl_equals_both_directions_to_the_uniform_distribution(space, seed):
    p = make_distribution(space, params_for(space, seed))
    uniform = make_distribution(space, torch.zeros(1, num_action_parameters(space)))
    expected = 0.5 * (p.kl(uniform) + uniform.kl(p))
    torch.testing.assert_close(p.symmetric_kl_with_uniform(), expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(ALL_SPACES), st.integers(0, 10**6))
def test_kl_is_positive_and_zero_only_from_itself(space, seed):
    p = make_distribution(space, params_for(space, seed, batch=8))
    q = make_distribution(space, params_for(space, seed + 1, batch=8))
    assert (p.kl(q) > 0).all()
    torch.testing.assert_close(p.kl(p), torch.zeros(8), rtol=0, atol=1e-6)


@pytest.mark.parametrize("space", ALL_SPACES, ids=str)
def test_actions_are_float_columns_and_results_one_number_per_row(space):
    distribution = make_distribution(space, params_for(space, 0, batch=7))
    for actions in (distribution.sample(), distribution.mode()):
        assert actions.dtype == torch.float32
        assert actions.shape == (7, num_actions(space))
        assert distribution.log_prob(actions).shape == (7,)
    assert distribution.entropy().shape == (7,)
    assert distribution.kl(distribution).shape == (7,)


@pytest.mark.parametrize("space", ALL_SPACES, ids=str)
def test_the_batch_may_have_several_axes(space):
    params = params_for(space, 0, batch=6)
    flat, deep = make_distribution(space, params), make_distribution(space, params.reshape(2, 3, -1))
    actions = flat.sample()
    deep_actions = actions.reshape(2, 3, -1)
    assert deep.sample().shape == deep_actions.shape
    torch.testing.assert_close(deep.log_prob(deep_actions), flat.log_prob(actions).reshape(2, 3))
    torch.testing.assert_close(deep.entropy(), flat.entropy().reshape(2, 3))


@pytest.mark.parametrize("space", ALL_SPACES, ids=str)
def test_the_same_generator_seed_gives_the_same_actions(space):
    distribution = make_distribution(space, params_for(space, 0, batch=64))
    first, again, other = (distribution.sample(torch.Generator().manual_seed(seed)) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("space", DISCRETE_SPACES, ids=str)
def test_the_mode_is_the_most_probable_action(space):
    params = params_for(space, 3)
    expected = all_actions(space)[enumerated(space, params).argmax()]
    assert torch.equal(make_distribution(space, params).mode()[0], expected)


@pytest.mark.parametrize("space", DISCRETE_SPACES, ids=str)
def test_frequencies_of_samples_follow_the_probabilities(space):
    n = 20_000
    params = params_for(space, 1) / 2
    samples = make_distribution(space, params.expand(n, -1)).sample(torch.Generator().manual_seed(0)).numpy()
    codes = np.ravel_multi_index(samples.astype(int).T, head_choices(space))
    probabilities = enumerated(space, params).exp().double().numpy()
    observed = np.bincount(codes, minlength=len(probabilities))
    assert stats.chisquare(observed, n * probabilities / probabilities.sum()).pvalue > 1e-3


@pytest.mark.parametrize("space", DISCRETE_SPACES, ids=str)
def test_masked_actions_are_never_sampled_and_have_probability_zero(space):
    g = torch.Generator().manual_seed(2)
    params = params_for(space, 2)
    mask = torch.ones_like(params)
    mask[0, 1] = 0  # the second choice of the first head; of a MultiBinary, the second bit
    column, choice = (1, 1) if isinstance(space, spaces.MultiBinary) else (0, 1)
    params[0, 1] = 20.0  # without the mask it would be chosen nearly always

    distribution = make_distribution(space, params.expand(2000, -1), mask.expand(2000, -1))
    forbidden = all_actions(space)[:, column] == choice
    assert not (distribution.sample(g)[:, column] == choice).any()
    assert not (distribution.mode()[:, column] == choice).any()
    probabilities = enumerated(space, params, mask).exp()
    assert (probabilities[forbidden] == 0).all()
    assert probabilities[~forbidden].sum().item() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("uniform", [0.0, 1.0 - 2.0**-53])
def test_the_extreme_random_numbers_do_not_choose_masked_actions(uniform, monkeypatch):
    monkeypatch.setattr(
        torch, "rand", lambda shape, **kwargs: torch.full(shape, uniform, dtype=torch.float64)
    )
    logits = torch.randn(50, 5, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([0, 1, 1, 0, 0]).expand(50, -1)
    actions = make_distribution(spaces.Discrete(5), logits, mask).sample()
    assert actions.unique().tolist() == [1.0 if uniform == 0.0 else 2.0]


def test_masking_choices_equals_a_space_without_them():
    logits = torch.tensor([[0.3, -1.0, 2.0, 0.7]])
    mask = torch.tensor([[1, 0, 1, 1]])
    masked = make_distribution(spaces.Discrete(4), logits, mask)
    small = make_distribution(spaces.Discrete(3), logits[:, [0, 2, 3]])
    other_masked = make_distribution(spaces.Discrete(4), logits.flip(1), mask)
    other_small = make_distribution(spaces.Discrete(3), logits.flip(1)[:, [0, 2, 3]])
    torch.testing.assert_close(masked.entropy(), small.entropy())
    torch.testing.assert_close(masked.kl(other_masked), small.kl(other_small))
    torch.testing.assert_close(masked.symmetric_kl_with_uniform(), small.symmetric_kl_with_uniform())


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.float32])
def test_masks_of_any_dtype_mean_the_same(dtype):
    mask = torch.tensor([[1, 0, 1]], dtype=dtype)
    entropy = make_distribution(spaces.Discrete(3), torch.zeros(1, 3), mask).entropy()
    assert entropy.item() == pytest.approx(math.log(2))


def test_masked_logits_get_no_gradient_and_the_others_a_finite_one():
    logits = torch.tensor([[0.5, 1.0, -0.5]], requires_grad=True)
    distribution = make_distribution(spaces.Discrete(3), logits, torch.tensor([[1, 0, 1]]))
    (distribution.entropy() + distribution.symmetric_kl_with_uniform()).sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0, 1] == 0
    assert logits.grad[0, 0] != 0


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 2]), TUPLE], ids=str)
def test_a_head_with_everything_masked_takes_its_first_choice_and_the_other_heads_stay_masked(space):
    params = params_for(space, 0)
    mask = torch.ones_like(params)
    first = head_choices(space)[0]
    mask[0, :first] = 0
    mask[0, first] = 0
    first_only = mask.clone()
    first_only[0, 0] = 1
    torch.testing.assert_close(enumerated(space, params, mask), enumerated(space, params, first_only))


def test_who_may_do_nothing_is_taught_nothing():
    logits = torch.tensor([[0.5, 1.0, -0.5], [0.5, 1.0, -0.5]], requires_grad=True)
    mask = torch.tensor([[0, 0, 0], [1, 1, 1]])
    distribution = make_distribution(spaces.Discrete(3), logits, mask)
    assert distribution.sample()[0].tolist() == [0.0]
    log_probs, entropies = distribution.log_prob(torch.zeros(2, 1)), distribution.entropy()
    assert (log_probs[0].item(), entropies[0].item()) == (0.0, 0.0)
    (log_probs + entropies + distribution.symmetric_kl_with_uniform()).sum().backward()
    assert logits.grad is not None
    assert logits.grad[0].tolist() == [0.0, 0.0, 0.0]
    assert (logits.grad[1] != 0).all()


def test_masks_of_mixed_spaces_cover_the_discrete_members_only():
    params = torch.zeros(100, num_action_parameters(MIXED))
    mask = torch.tensor([1, 0, 0, 0, 1]).expand(100, -1)
    actions = make_distribution(MIXED, params, mask).sample()
    assert (actions[:, 2] == 0).all()
    assert (actions[:, 4] == 1).all()


def test_a_mask_for_real_valued_actions_is_refused():
    with pytest.raises(ValueError, match="action_mask"):
        make_distribution(BOX, torch.zeros(1, 6), torch.ones(1, 0))


@pytest.mark.parametrize(("params", "mask"), [((2, 4), None), ((2, 5), (2, 4)), ((2, 5), (1, 5))])
def test_wrong_shapes_are_refused(params, mask):
    with pytest.raises(ValueError, match="expected"):
        make_distribution(spaces.Discrete(5), torch.zeros(params), None if mask is None else torch.ones(mask))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_gaussian_equals_torch_distributions(seed):
    p_params, q_params = params_for(BOX, seed, batch=4), params_for(BOX, seed + 1, batch=4)
    p, q = make_distribution(BOX, p_params), make_distribution(BOX, q_params)
    p_ref, q_ref = (
        distributions.Independent(distributions.Normal(x[:, :3], x[:, 3:].exp()), 1)
        for x in (p_params, q_params)
    )
    actions = p.sample()
    torch.testing.assert_close(p.log_prob(actions), p_ref.log_prob(actions), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(p.entropy(), p_ref.entropy(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(p.kl(q), distributions.kl_divergence(p_ref, q_ref), rtol=1e-4, atol=1e-4)


def test_gaussian_samples_have_the_right_distribution():
    params = torch.tensor([1.0, -2.0, math.log(0.5), math.log(3.0)]).expand(5000, -1)
    samples = (
        make_distribution(spaces.Box(-1, 1, (2,)), params).sample(torch.Generator().manual_seed(0)).numpy()
    )
    assert stats.kstest(samples[:, 0], "norm", (1.0, 0.5)).pvalue > 1e-3
    assert stats.kstest(samples[:, 1], "norm", (-2.0, 3.0)).pvalue > 1e-3


@pytest.mark.parametrize(("log_stddev", "stddev"), [(-50.0, 1e-4), (50.0, 1e4), (0.0, 1.0)])
def test_standard_deviation_stays_within_its_bounds(log_stddev, stddev):
    distribution = make_distribution(spaces.Box(-1, 1, (1,)), torch.tensor([[0.0, log_stddev]]))
    expected = distributions.Normal(0.0, stddev)
    assert distribution.entropy().item() == pytest.approx(expected.entropy().item(), rel=1e-5)


def test_mixed_log_prob_is_the_sum_of_its_members():
    params = params_for(MIXED, 0, batch=4)
    actions = make_distribution(MIXED, params).sample()
    box2, discrete3, box1, discrete2 = params.split([4, 3, 2, 2], dim=1)
    expected = (
        distributions.Normal(box2[:, :2], box2[:, 2:].exp()).log_prob(actions[:, :2]).sum(1)
        + distributions.Categorical(logits=discrete3).log_prob(actions[:, 2])
        + distributions.Normal(box1[:, 0], box1[:, 1].exp()).log_prob(actions[:, 3])
        + distributions.Categorical(logits=discrete2).log_prob(actions[:, 4])
    )
    torch.testing.assert_close(
        make_distribution(MIXED, params).log_prob(actions), expected, rtol=1e-4, atol=1e-5
    )


def test_mixed_mode_puts_each_member_in_its_columns():
    params = torch.tensor([[0.1, 0.2, 0.0, 0.0, 0.0, 0.0, 9.0, 0.3, 0.0, 0.0, 9.0]])
    mode = make_distribution(MIXED, params).mode()
    torch.testing.assert_close(mode, torch.tensor([[0.1, 0.2, 2.0, 0.3, 1.0]]))


@pytest.mark.parametrize("space", [BOX, MIXED], ids=str)
def test_symmetric_kl_needs_discrete_actions(space):
    with pytest.raises(ValueError, match="use --exploration_loss=entropy"):
        make_distribution(space, params_for(space, 0)).symmetric_kl_with_uniform()


@pytest.mark.parametrize("space", ALL_SPACES, ids=str)
def test_divergence_between_kinds_is_refused(space):
    other_space = BOX if space in DISCRETE_SPACES else spaces.Discrete(2)
    other = make_distribution(other_space, params_for(other_space, 0))
    with pytest.raises(TypeError, match="is not defined"):
        make_distribution(space, params_for(space, 0)).kl(other)


@pytest.mark.parametrize("space", ALL_SPACES, ids=str)
@pytest.mark.parametrize("quantity", ["log_prob", "entropy", "kl"])
def test_gradients_are_right_numerically(space, quantity):
    params = params_for(space, 0, batch=2).double().requires_grad_()
    actions = make_distribution(space, params).sample()
    other = make_distribution(space, params_for(space, 1, batch=2).double())

    def evaluate(x):
        distribution = make_distribution(space, x)
        if quantity == "log_prob":
            return distribution.log_prob(actions)
        return distribution.entropy() if quantity == "entropy" else distribution.kl(other)

    assert gradcheck(evaluate, (params,))


@pytest.mark.parametrize("space", DISCRETE_SPACES, ids=str)
def test_gradient_of_the_symmetric_kl_is_right_numerically(space):
    params = params_for(space, 0, batch=2).double().requires_grad_()
    assert gradcheck(lambda x: make_distribution(space, x).symmetric_kl_with_uniform(), (params,))


@pytest.mark.parametrize("space", ALL_SPACES, ids=str)
def test_sampling_first_leaves_the_gradient_of_the_entropy_intact(space):
    params = params_for(space, 0).requires_grad_()
    distribution = make_distribution(space, params)
    actions = distribution.sample()
    assert not actions.requires_grad
    distribution.entropy().sum().backward()
    assert params.grad is not None
    assert params.grad.abs().sum() > 0


def test_a_space_first_used_for_acting_can_be_trained_with():
    space = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(9), spaces.Box(-1, 1, (1,))])
    params = torch.zeros(1, num_action_parameters(space))
    with torch.inference_mode():
        actions = make_distribution(space, params).sample()
    make_distribution(space, params.requires_grad_()).log_prob(actions.clone()).sum().backward()
    assert params.grad is not None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_parameters_give_finite_results(dtype):
    params = torch.tensor([[1.0, 2.0, 0.0]], dtype=dtype)
    distribution = make_distribution(spaces.Discrete(3), params, torch.tensor([[1, 0, 1]]))
    assert distribution.entropy().item() == pytest.approx(0.5822, abs=1e-3)  # of sigmoid(1) = 0.731


def test_extreme_logits_stay_finite():
    distribution = make_distribution(spaces.Discrete(3), torch.tensor([[1e4, -1e4, 0.0]]))
    assert distribution.sample().item() == 0.0
    assert distribution.entropy().item() == 0.0
    assert torch.isfinite(distribution.symmetric_kl_with_uniform()).all()

"""Running statistics against numpy over everything seen."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sample_factory.rl.normalisation import RunningMeanStd


def with_imaginary_sample(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the data and one more sample of mean 0 and second moment 1, from raw moments."""
    n = len(data) + 1
    mean = data.sum(axis=0) / n
    return mean, ((data**2).sum(axis=0) + 1.0) / n - mean**2


def test_two_batches_by_hand():
    # Imaginary sample: mean 0, variance 1, count 1. Then 2, 4, 6: mean 12/4 = 3,
    # variance (1 + 4 + 16 + 36)/4 - 9 = 5.25. Then 8: mean 20/5 = 4, variance (57 + 64)/5 - 16 = 8.2.
    stats = RunningMeanStd(())
    stats.update(torch.tensor([2.0, 4.0, 6.0]))
    assert (stats.mean.item(), stats.var.item(), stats.count.item()) == pytest.approx((3.0, 5.25, 4.0))
    stats.update(torch.tensor([8.0]))
    assert (stats.mean.item(), stats.var.item(), stats.count.item()) == pytest.approx((4.0, 8.2, 5.0))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6),
    st.lists(st.integers(1, 20), min_size=1, max_size=6),
    st.sampled_from([(), (3,), (2, 2)]),
)
def test_equals_numpy_over_all_batches(seed, sizes, shape):
    rng = np.random.default_rng(seed)
    batches = [rng.normal(3.0, 2.0, (size, *shape)) for size in sizes]
    stats = RunningMeanStd(shape)
    for batch in batches:
        stats.update(torch.from_numpy(batch))
    mean, var = with_imaginary_sample(np.concatenate(batches))
    np.testing.assert_allclose(stats.mean.numpy(), mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(stats.var.numpy(), var, rtol=1e-9, atol=1e-9)


def test_a_small_spread_around_a_large_mean_is_not_lost():
    stats = RunningMeanStd(())
    rng = np.random.default_rng(0)
    data = (1000.0 + rng.normal(0.0, 0.5, (200, 500))).astype(np.float32)
    stats.count.fill_(0.0)
    for batch in data:
        stats.update(torch.from_numpy(batch))
    assert stats.var.item() == pytest.approx(data.astype(np.float64).var(), rel=1e-4)


def test_normalize_by_hand():
    stats = RunningMeanStd((2,))
    stats.mean.copy_(torch.tensor([1.0, -2.0]))
    stats.var.copy_(torch.tensor([4.0, 0.25]) - 1e-5)
    normalised = stats.normalize(torch.tensor([[3.0, -2.5], [1.0, -1.0]]))
    torch.testing.assert_close(normalised, torch.tensor([[1.0, -1.0], [0.0, 2.0]]))


def test_normalised_values_are_clipped_at_five():
    stats = RunningMeanStd(())
    assert stats.normalize(torch.tensor([100.0, -100.0])).tolist() == [5.0, -5.0]


def test_denormalize_undoes_normalize_within_the_clipping_range():
    stats = RunningMeanStd(())
    stats.update(torch.tensor([10.0, 30.0, 20.0]))
    x = torch.tensor([5.0, 15.0, 40.0])
    torch.testing.assert_close(stats.denormalize(stats.normalize(x)), x)


def test_denormalize_clips_first():
    stats = RunningMeanStd(())
    torch.testing.assert_close(stats.denormalize(torch.tensor(50.0)), torch.tensor(5.0), rtol=1e-4, atol=0)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_outputs_are_float32_and_statistics_float64(dtype):
    stats = RunningMeanStd((2,))
    batch = torch.tensor([[1, 2], [3, 4]], dtype=dtype)
    stats.update(batch)
    assert stats.normalize(batch).dtype == torch.float32
    assert stats.denormalize(batch).dtype == torch.float32
    assert stats.mean.dtype == stats.var.dtype == stats.count.dtype == torch.float64


def test_normalize_accepts_any_number_of_leading_axes():
    stats = RunningMeanStd((2,))
    stats.update(torch.randn(10, 2))
    x = torch.randn(3, 4, 2)
    torch.testing.assert_close(stats.normalize(x), stats.normalize(x.reshape(12, 2)).reshape(3, 4, 2))


def test_an_empty_batch_changes_nothing():
    stats = RunningMeanStd((2,))
    stats.update(torch.zeros(0, 2))
    assert stats.count.item() == 1.0
    assert stats.mean.tolist() == [0.0, 0.0]


def test_calling_the_module_normalises_without_learning():
    stats = RunningMeanStd(())
    stats.train()
    torch.testing.assert_close(stats(torch.tensor([2.0])), torch.tensor([2.0]), rtol=1e-4, atol=0)
    assert stats.count.item() == 1.0


def test_statistics_travel_with_the_state_dict():
    stats, restored = RunningMeanStd((2,)), RunningMeanStd((2,))
    stats.update(torch.tensor([[1.0, 2.0], [5.0, 7.0]]))
    restored.load_state_dict(stats.state_dict())
    x = torch.randn(4, 2)
    assert torch.equal(stats.normalize(x), restored.normalize(x))


def test_a_batch_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"batch has shape \(4, 3\), expected \(4, 2\)"):
        RunningMeanStd((2,)).update(torch.zeros(4, 3))

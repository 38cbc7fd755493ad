"""Running mean and variance of a stream of batches.

Used by `model` for observations and returns; saved with the weights because the buffers are part of the
module's state. Invariant: statistics change in `update` only.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sample_factory.rl.shapes import check_shapes


class RunningMeanStd(nn.Module):
    """Normalises to mean 0 and standard deviation 1 by the statistics of everything seen so far.

    The statistics are float64: with float32 the count stops growing at 2^24. They start as one imaginary
    sample with mean 0 and variance 1. Inputs of any dtype give float32 outputs.

    Args:
        shape: of one sample; () for scalars such as returns.
        eps: added to the variance.
        clip: normalised values stay within [-clip, clip].
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, shape: Sequence[int], eps: float = 1e-5, clip: float = 5.0) -> None:
        super().__init__()
        self.eps = eps
        self.clip = clip
        self.register_buffer("mean", torch.zeros(tuple(shape), dtype=torch.float64))
        self.register_buffer("var", torch.ones(tuple(shape), dtype=torch.float64))
        self.register_buffer("count", torch.ones((), dtype=torch.float64))

    @torch.no_grad()
    def update(self, batch: Tensor) -> None:
        """Merges the statistics of `batch`, `[B, *shape]`; a batch that is not finite is left out.

        Chan et al. 1979, "Updating formulae and a pairwise algorithm for computing sample variances".
        """
        check_shapes((batch.shape[0], *self.mean.shape), batch=batch)
        added = batch.shape[0]
        if added == 0:
            return
        batch = _as_float(batch)
        batch_mean = batch.mean(dim=0)
        # Two passes: on a CPU, `var_mean` over the first axis takes up to seven times as long.
        batch_var = (batch - batch_mean).square_().mean(dim=0)
        if not bool(torch.isfinite(batch_var).all()):
            return  # one NaN taken in would never leave the statistics again
        total = float(self.count) + added
        share = added / total
        delta = batch_mean - self.mean
        self.var.lerp_(batch_var.to(self.var), share).addcmul_(delta, delta, value=share * (1.0 - share))
        self.mean.add_(delta, alpha=share)
        self.count.fill_(total)

    def normalize(self, x: Tensor) -> Tensor:
        """Normalised and clipped `x`, `[..., *shape]`."""
        scale = (self.var + self.eps).rsqrt().float()
        return ((x.float() - self.mean.float()) * scale).clamp(-self.clip, self.clip)

    def denormalize(self, x: Tensor) -> Tensor:
        """The inverse of `normalize` within the clipping range."""
        scale = (self.var + self.eps).sqrt().float()
        return x.float().clamp(-self.clip, self.clip) * scale + self.mean.float()

    def forward(self, x: Tensor) -> Tensor:
        """Same as `normalize`."""
        return self.normalize(x)


def _as_float(batch: Tensor) -> Tensor:
    return batch if batch.dtype == torch.float64 else batch.float()

"""Distributions over actions, from the numbers a network gives.

Built by `make_distribution`, used for acting (`sample`, `log_prob`) and for the losses. Whatever the action
space, there are at most two blocks: all discrete heads together and all real-valued columns together, so the
cost in Python does not grow with the number of heads. Heads are independent: log-probabilities, entropies and
divergences are sums over heads. Invariant: sampling and modes carry no gradient, everything else does.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import lru_cache, partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor

from sample_factory.rl.action_spaces import Head, action_heads, num_action_parameters, num_actions
from sample_factory.rl.shapes import check_shapes

__all__ = [
    "ActionDistribution",
    "CategoricalHeads",
    "DiagonalGaussian",
    "MixedDistribution",
    "make_distribution",
    "num_action_parameters",
    "num_actions",
]

MASKED_LOGIT = -1e9  # exp() of it is exactly 0, and unlike -inf it can be multiplied by 0
MIN_STDDEV, MAX_STDDEV = 1e-4, 1e4
_LOG_2PI = math.log(2 * math.pi)


class ActionDistribution(ABC):
    """Distribution over rows of the action array; leading axes `[...]` are batch axes."""

    @abstractmethod
    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Random actions, float32 `[..., num_actions]`; the generator makes them repeatable."""

    @abstractmethod
    def mode(self) -> Tensor:
        """The most probable actions, float32 `[..., num_actions]`."""

    @abstractmethod
    def log_prob(self, actions: Tensor) -> Tensor:
        """Logarithm of the probability (density) of actions `[..., num_actions]`, as `[...]`."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Entropy in nats `[...]`; differential entropy for real-valued columns."""

    @abstractmethod
    def kl(self, other: ActionDistribution) -> Tensor:
        """KL(self || other) `[...]`; both over the same action space."""

    @abstractmethod
    def symmetric_kl_with_uniform(self) -> Tensor:
        """(KL(self || uniform) + KL(uniform || self)) / 2 `[...]`; discrete actions only."""


class CategoricalHeads(ActionDistribution):
    """Independent categorical heads, padded to the same number of choices.

    Args:
        logits: `[..., heads, choices]`.
        allowed: boolean, of that shape or `[heads, choices]`, at least one choice per head; None allows
            everything. Other choices have probability 0, and "uniform" is uniform over the allowed ones.
    """

    def __init__(self, logits: Tensor, allowed: Tensor | None = None) -> None:
        if allowed is not None:
            logits = torch.where(allowed, logits, MASKED_LOGIT)
        self._allowed = allowed
        self._logits = logits
        self.log_probs = logits.log_softmax(dim=-1)

    def probs(self) -> Tensor:
        """Probabilities `[..., heads, choices]`; exactly 0 where not allowed."""
        if self._allowed is None:
            return self.log_probs.exp()  # a softmax over few choices costs three times as much
        # On a CPU exp() is ten times slower where it underflows, as it does at masks.
        return self._logits.softmax(dim=-1)

    @torch.no_grad()
    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Inverts the cumulative distribution: one random number per head instead of one per choice."""
        # In float64 a choice of probability 0 cannot win by a rounding error, and u * total < total.
        cumulative = self.probs().cumsum(dim=-1, dtype=torch.float64)
        total = cumulative[..., -1:]
        uniform = torch.rand(total.shape, dtype=torch.float64, device=total.device, generator=generator)
        return torch.searchsorted(cumulative, uniform.mul_(total), right=True).squeeze(-1).float()

    @torch.no_grad()
    def mode(self) -> Tensor:
        """The likeliest choice of each head."""
        return self.log_probs.argmax(dim=-1).float()

    def log_prob(self, actions: Tensor) -> Tensor:
        """Sum over heads of the chosen log-probabilities."""
        check_shapes(self.log_probs.shape[:-1], actions=actions)
        return self.log_probs.gather(-1, actions.long().unsqueeze(-1)).squeeze(-1).sum(dim=-1)

    def entropy(self) -> Tensor:
        """Shannon entropy."""
        return -(self.probs() * self.log_probs).sum(dim=(-2, -1))

    def kl(self, other: ActionDistribution) -> Tensor:
        """Sum over heads of KL(self || other)."""
        if not isinstance(other, CategoricalHeads):
            raise TypeError(f"KL between CategoricalHeads and {type(other).__name__} is not defined")
        return (self.probs() * (self.log_probs - other.log_probs)).sum(dim=(-2, -1))

    def symmetric_kl_with_uniform(self) -> Tensor:
        """Sum over heads of sum (p - u) log p / 2: the entropy of u cancels between the two directions."""
        uniform: Tensor | float
        if self._allowed is None:
            uniform = 1.0 / self.log_probs.shape[-1]
        else:
            uniform = self._allowed / self._allowed.sum(dim=-1, keepdim=True)
        return 0.5 * ((self.probs() - uniform) * self.log_probs).sum(dim=(-2, -1))


class DiagonalGaussian(ActionDistribution):
    """Independent normal distributions, neither squashed nor clipped.

    Args:
        means: `[..., k]`.
        log_stddevs: same shape; the standard deviation is kept within [1e-4, 1e4].
    """

    def __init__(self, means: Tensor, log_stddevs: Tensor) -> None:
        check_shapes(means.shape, log_stddevs=log_stddevs)
        self.means = means
        self.log_stddevs = log_stddevs.clamp(math.log(MIN_STDDEV), math.log(MAX_STDDEV))
        self.stddevs = self.log_stddevs.exp()

    @torch.no_grad()
    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Mean plus scaled standard normal noise."""
        mean = self.means
        noise = torch.randn(mean.shape, dtype=mean.dtype, device=mean.device, generator=generator)
        return torch.addcmul(mean, noise, self.stddevs).float()

    @torch.no_grad()
    def mode(self) -> Tensor:
        """The mean."""
        return self.means.detach().float()

    def log_prob(self, actions: Tensor) -> Tensor:
        """Sum over columns of the log-density."""
        check_shapes(self.means.shape, actions=actions)
        distances = (actions - self.means) / self.stddevs
        return -(0.5 * distances.square() + self.log_stddevs + 0.5 * _LOG_2PI).sum(dim=-1)

    def entropy(self) -> Tensor:
        """Differential entropy; may be negative."""
        return (self.log_stddevs + 0.5 * (1.0 + _LOG_2PI)).sum(dim=-1)

    def kl(self, other: ActionDistribution) -> Tensor:
        """Closed form, summed over columns."""
        if not isinstance(other, DiagonalGaussian):
            raise TypeError(f"KL between DiagonalGaussian and {type(other).__name__} is not defined")
        spread = self.stddevs / other.stddevs
        shift = (self.means - other.means) / other.stddevs
        return (0.5 * (spread.square() + shift.square() - 1.0) - spread.log()).sum(dim=-1)

    def symmetric_kl_with_uniform(self) -> Tensor:
        """There is no uniform distribution over the reals."""
        raise ValueError(
            "--exploration_loss=symmetric_kl needs discrete actions: use --exploration_loss=entropy here."
        )


class MixedDistribution(ActionDistribution):
    """Discrete heads and real-valued columns in one action.

    Args:
        discrete: distribution of the discrete columns.
        gaussian: distribution of the real-valued columns.
        columns: which columns of the action array belong to which.
    """

    def __init__(
        self, discrete: CategoricalHeads, gaussian: DiagonalGaussian, columns: ActionColumns
    ) -> None:
        self.discrete = discrete
        self.gaussian = gaussian
        self._columns = columns

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Samples of both parts, in the order of the space's members."""
        return self._join(self.discrete.sample(generator), self.gaussian.sample(generator))

    def mode(self) -> Tensor:
        """Modes of both parts, in the order of the space's members."""
        return self._join(self.discrete.mode(), self.gaussian.mode())

    def log_prob(self, actions: Tensor) -> Tensor:
        """Log-probability of the discrete columns plus log-density of the others."""
        discrete = self.discrete.log_prob(actions.index_select(-1, self._columns.discrete))
        return discrete + self.gaussian.log_prob(actions.index_select(-1, self._columns.gaussian))

    def entropy(self) -> Tensor:
        """Sum of both parts."""
        return self.discrete.entropy() + self.gaussian.entropy()

    def kl(self, other: ActionDistribution) -> Tensor:
        """Sum of both parts."""
        if not isinstance(other, MixedDistribution):
            raise TypeError(f"KL between MixedDistribution and {type(other).__name__} is not defined")
        return self.discrete.kl(other.discrete) + self.gaussian.kl(other.gaussian)

    def symmetric_kl_with_uniform(self) -> Tensor:
        """Undefined because of the real-valued columns."""
        return self.gaussian.symmetric_kl_with_uniform()

    def _join(self, discrete: Tensor, gaussian: Tensor) -> Tensor:
        return torch.cat((discrete, gaussian), dim=-1).index_select(-1, self._columns.joined)


class ActionColumns(NamedTuple):
    """Columns of the action array: the discrete ones, the others, and where each is after joining the two."""

    discrete: Tensor
    gaussian: Tensor
    joined: Tensor


class _Layout(NamedTuple):
    """Where the parts of a distribution are, worked out once per action space and device."""

    num_parameters: int
    logits: Tensor  # columns of the parameters
    means: Tensor
    log_stddevs: Tensor
    actions: ActionColumns
    choices: Tensor  # [heads, choices]: columns of the logits; one column more stands for the constant 0
    is_choice: Tensor  # [heads, choices]: False for padding
    is_first_choice: Tensor  # [heads, choices]
    equal_heads: bool  # the logits need no rearranging, only a view as [heads, choices]


def make_distribution(
    action_space: spaces.Space, params: Tensor, mask: Tensor | None = None
) -> ActionDistribution:
    """The distribution over actions that network outputs describe.

    Args:
        action_space: of one agent.
        params: `[..., num_action_parameters(action_space)]`, in the order of the space's members: logits for
            discrete members (a bit of MultiBinary has one), means then log standard deviations for a Box.
        mask: `[..., discrete logits]`; choices whose entry is 0 are forbidden (for a bit: setting it). A head
            with no choice left takes its first one for certain: the environment expects some action, and
            what is certain teaches the policy nothing.
    """
    heads = action_heads(action_space)
    layout = _layout(heads, params.device)
    check_shapes((*params.shape[:-1], layout.num_parameters), params=params)
    if params.dtype in (torch.float16, torch.bfloat16):
        params = params.float()  # half precision cannot hold the masked logit

    kinds = {head.kind for head in heads}
    if "gaussian" not in kinds:
        return _categorical_heads(layout, params, mask)
    gaussian = DiagonalGaussian(
        params.index_select(-1, layout.means), params.index_select(-1, layout.log_stddevs)
    )
    if kinds != {"gaussian"}:
        return MixedDistribution(
            _categorical_heads(layout, params.index_select(-1, layout.logits), mask), gaussian, layout.actions
        )
    if mask is not None:
        raise ValueError(f"{action_space} has no discrete actions: remove the observation key action_mask.")
    return gaussian


def _categorical_heads(layout: _Layout, logits: Tensor, mask: Tensor | None) -> CategoricalHeads:
    if mask is None:
        allowed = None if layout.equal_heads else layout.is_choice
    else:
        check_shapes(logits.shape, mask=mask)
        allowed = _by_head(layout, mask != 0, constant=1.0) & layout.is_choice
        allowed = allowed | (layout.is_first_choice & ~allowed.any(dim=-1, keepdim=True))
    return CategoricalHeads(_by_head(layout, logits, constant=0.0), allowed)


def _by_head(layout: _Layout, columns: Tensor, constant: float) -> Tensor:
    """Rearranges `[..., logits]` as `[..., heads, choices]`; entries that have no logit get the constant."""
    shape = (*columns.shape[:-1], *layout.choices.shape)
    if layout.equal_heads:
        return columns.reshape(shape)
    extended = F.pad(columns, (0, 1), value=constant)
    by_head = extended.index_select(-1, layout.choices.flatten())  # four times faster than [..., choices]
    return by_head.reshape(shape)


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # the first caller may be acting, but later ones train with the same tensors
def _layout(heads: tuple[Head, ...], device: torch.device) -> _Layout:
    logits: list[int] = []
    means: list[int] = []
    log_stddevs: list[int] = []
    discrete_actions: list[int] = []
    gaussian_actions: list[int] = []
    rows: list[list[int]] = []
    constant_zero = sum(head.num_parameters for head in heads if head.kind != "gaussian")
    parameter = action = 0
    for head in heads:
        if head.kind == "gaussian":
            means += range(parameter, parameter + head.size)
            log_stddevs += range(parameter + head.size, parameter + 2 * head.size)
            gaussian_actions += range(action, action + head.size)
        else:
            columns = list(range(len(logits), len(logits) + head.size))
            # A bit with logit x is a choice between "0" with logit 0 and "1" with logit x.
            rows.append([constant_zero, *columns] if head.kind == "bernoulli" else columns)
            logits += range(parameter, parameter + head.size)
            discrete_actions.append(action)
        parameter += head.num_parameters
        action += head.num_actions

    widest = max((len(row) for row in rows), default=0)
    index = partial(torch.tensor, dtype=torch.long, device=device)
    return _Layout(
        num_parameters=parameter,
        logits=index(logits),
        means=index(means),
        log_stddevs=index(log_stddevs),
        actions=ActionColumns(
            index(discrete_actions),
            index(gaussian_actions),
            index(discrete_actions + gaussian_actions).argsort(),
        ),
        choices=index([row + [constant_zero] * (widest - len(row)) for row in rows]),
        is_choice=index([[i < len(row) for i in range(widest)] for row in rows]).bool(),
        is_first_choice=index([[i == 0 for i in range(widest)] for _ in rows]).bool(),
        equal_heads=all(head.kind == "categorical" and head.size == widest for head in heads),
    )

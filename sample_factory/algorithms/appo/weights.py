"""Weights on their way from a learner to everyone who acts with them.

Two copies and a version. The learner writes the copy that is not current, then makes it current by naming its
version; readers copy the current one and look again whether it was rewritten meanwhile. Nobody waits, and a
learner killed inside `publish` leaves the current copy intact.

With the weights go the optimiser's moments, which nobody acts with: they are there for the successor of a
learner that died.

Invariant: a successful `load` gives exactly the weights of the version it returns, and so do moments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sample_factory.processes.shared_memory import ArraySpec, SharedArrays

NOT_PUBLISHED = -1
_MAX_READS = 1000  # a publication takes as long as a read, and an SGD step many times as long
_COPIES = 2


class TornWeightsError(RuntimeError):
    """A reader never got a whole copy."""


@dataclass(frozen=True)
class WeightsLayout:
    """Names, shapes and types of a policy's parameters and buffers, and of its optimiser's moments."""

    tensors: Mapping[str, tuple[tuple[int, ...], str]]
    moments: Mapping[str, tuple[tuple[int, ...], str]] = field(default_factory=dict)

    def without_moments(self) -> WeightsLayout:
        """The layout of a policy that does not learn."""
        return WeightsLayout(self.tensors)

    def specs(self) -> dict[str, ArraySpec]:
        """The arrays of one policy's weight store."""
        specs = {"current": ArraySpec((1,), "int64", fill=NOT_PUBLISHED)}
        for copy in range(_COPIES):
            # version whose weights the copy holds; NOT_PUBLISHED while it is being written
            specs[f"version/{copy}"] = ArraySpec((1,), "int64", fill=NOT_PUBLISHED)
            for name, (shape, dtype) in self.tensors.items():
                specs[f"{copy}/{name}"] = ArraySpec(shape, dtype)
            for name, (shape, dtype) in self.moments.items():
                specs[f"{copy}/moments/{name}"] = ArraySpec(shape, dtype)
        return specs


class WeightStore:
    """One policy's published weights; one writer, any number of readers."""

    def __init__(self, layout: WeightsLayout, arrays: SharedArrays):
        self._current = arrays["current"]
        self._versions = [arrays[f"version/{copy}"] for copy in range(_COPIES)]
        self._copies = [
            {name: arrays[f"{copy}/{name}"] for name in layout.tensors} for copy in range(_COPIES)
        ]
        self._moments = [
            {name: arrays[f"{copy}/moments/{name}"] for name in layout.moments} for copy in range(_COPIES)
        ]

    @property
    def version(self) -> int:
        """The newest published version, or NOT_PUBLISHED."""
        return int(self._current[0])

    def publish(
        self, tensors: Mapping[str, np.ndarray], version: int, moments: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """Writes a new version and makes it current; moments that are not given count as zero."""
        copy = 1 if self._versions[0][0] == self.version else 0
        self._versions[copy][0] = NOT_PUBLISHED
        for name, target in self._copies[copy].items():
            np.copyto(target, tensors[name])
        for name, target in self._moments[copy].items():
            np.copyto(target, moments[name] if moments else 0)
        self._versions[copy][0] = version
        self._current[0] = version
        if self._versions[1 - copy][0] == version:  # published anew: the older copy must not pass for it
            self._versions[1 - copy][0] = NOT_PUBLISHED

    def load(self, into: Mapping[str, np.ndarray]) -> int:
        """Copies the newest version into `into` and returns it; NOT_PUBLISHED, and no copy, before the first.

        A copy is torn when two publications happen during one read; then `into` holds a mixture that nobody
        may act with, so the read is repeated at once.
        """
        return self._load(self._copies, into)

    def empty_moments(self) -> dict[str, np.ndarray]:
        """Arrays that `load_moments` can fill."""
        return {name: np.empty_like(array) for name, array in self._moments[0].items()}

    def load_moments(self, into: Mapping[str, np.ndarray]) -> int:
        """The same for the optimiser's moments."""
        return self._load(self._moments, into)

    def _load(self, copies: Sequence[Mapping[str, np.ndarray]], into: Mapping[str, np.ndarray]) -> int:
        for _ in range(_MAX_READS):
            version = self.version
            if version == NOT_PUBLISHED:
                return NOT_PUBLISHED
            for held, tensors in zip(self._versions, copies, strict=True):
                if held[0] != version:
                    continue
                for name, source in tensors.items():
                    np.copyto(into[name], source)
                if held[0] == version:
                    return version
        raise TornWeightsError(f"the weights were rewritten during each of {_MAX_READS} reads")

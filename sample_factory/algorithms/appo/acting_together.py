"""Several small policies that act in one pass of numpy, whoever of them controls which row.

`LocalInference` uses it where every policy acts in numpy and all have one architecture. Rows are sorted into
a block per policy, padded to the length of the longest, so that the networks run as one with one more axis.

Invariant: what is written for a row is what its policy would write acting alone; padding is never written.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sample_factory.algorithms.appo.acting import Acting, ActingPolicy
from sample_factory.algorithms.appo.weights import NOT_PUBLISHED
from sample_factory.model.numpy_policy import NumpyPolicy, NumpyPopulation


class PolicyBlocks:
    """Which rows of a split belong to which policy; worked out anew only when that changes."""

    def __init__(self, num_policies: int) -> None:
        self._num_policies = num_policies
        self._policies = b""
        self.present: list[int] = []
        self.counts: list[int] = []  # rows of each policy
        self.padded = np.empty((0, 0), np.int64)  # [policies, longest block] rows of the split
        self.order = np.empty(0, np.int64)  # the rows, block after block without padding
        self.places = np.empty(0, np.int64)  # where they stand in the padded blocks, laid out flat

    def update(self, policies: np.ndarray) -> None:
        """`policies[row]` acts in that row."""
        if (now := policies.tobytes()) == self._policies:
            return
        self._policies = now
        counts = np.bincount(policies, minlength=self._num_policies)
        self.counts = counts.tolist()
        self.present = np.flatnonzero(counts).tolist()
        self.order = policies.argsort(kind="stable")
        owners = policies[self.order].astype(np.int64)
        places_in_block = np.arange(len(policies)) - (np.cumsum(counts) - counts)[owners]
        longest = int(counts.max())
        self.places = owners * longest + places_in_block
        padded = np.zeros(self._num_policies * longest, np.int64)
        padded[self.places] = self.order
        self.padded = padded.reshape(self._num_policies, longest)


class ActingTogether:
    """All policies of a rollout worker."""

    def __init__(self, policies: Mapping[int, ActingPolicy]):
        """Takes policies for which `fits` is true."""
        self._policies = [policies[policy_id] for policy_id in range(len(policies))]
        self._store = self._policies[0].store
        self._population = NumpyPopulation(_numpy_policies(policies))
        self._versions = np.full(len(policies), NOT_PUBLISHED, self._store.policy_versions.dtype)
        self._blocks: dict[int, PolicyBlocks] = {}  # by split

    @staticmethod
    def fits(policies: Mapping[int, Acting]) -> bool:
        """Whether there are several, all in one store, all in numpy, and all alike."""
        stores = {id(p.store.arrays) for p in policies.values() if isinstance(p, ActingPolicy)}
        numpy_policies = _numpy_policies(policies)
        return (
            len(numpy_policies) == len(policies) > 1
            and len(stores) == 1
            and NumpyPopulation.fits(numpy_policies)
        )

    def act(self, split_id: int, slots: np.ndarray, policies: np.ndarray, row: int) -> set[int]:
        """Writes all outputs at `[slots, row]`, or nothing and returns the policies without weights."""
        blocks = self._blocks.setdefault(split_id, PolicyBlocks(len(self._policies)))
        blocks.update(policies)
        missing = {policy_id for policy_id in blocks.present if not self._policies[policy_id].refresh()}
        if missing:
            return missing
        for policy_id in blocks.present:
            version = self._policies[policy_id].version
            if self._versions[policy_id] != version:
                self._population.take(policy_id)
                self._versions[policy_id] = version
        store, written = self._store, slots[blocks.order]
        outputs = self._population.act(store.obs["obs"][slots[blocks.padded], row], blocks.counts)
        store.outputs[written, row] = outputs[blocks.places]
        store.policy_versions[written, row] = self._versions[policies[blocks.order]]
        return set()


def _numpy_policies(policies: Mapping[int, Acting]) -> list[NumpyPolicy]:
    acting = [policies[policy_id] for policy_id in range(len(policies))]
    return [p.numpy_policy for p in acting if isinstance(p, ActingPolicy) and p.numpy_policy is not None]

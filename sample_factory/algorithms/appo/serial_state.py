"""Everything a serial session holds besides its learners, so that it resumes bit for bit.

Learners are in the checkpoints. The rest (open trajectories, messages under way, random numbers, where each
environment stands) is written here at the end of a serial session and read at the start of the next one.
Environments are brought back by replaying their episode (`envs.journal`); where that is impossible the
session resumes like a parallel one, with new episodes.

Invariant: the file is used only together with checkpoints of exactly the versions it was written with.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from sample_factory.algorithms.appo.messages import ActionRequest
from sample_factory.algorithms.appo.site import Site
from sample_factory.algorithms.appo.trajectories import SlotState
from sample_factory.envs.journal import JournaledVector
from sample_factory.processes.channels import LocalChannel
from sample_factory.processes.worker import Component

log = logging.getLogger("sample_factory")

FILE_NAME = "serial_state.pth"


def save_serial_state(site: Site, components: Mapping[str, Component]) -> None:
    """Writes the state beside the checkpoints; environments that can't be replayed leave no file."""
    from sample_factory.model.checkpoint_format import encode
    from sample_factory.model.durable_files import write_durably

    if not all(isinstance(split.vector, JournaledVector) for split in _splits(components)):
        return
    path = site.directory / FILE_NAME
    try:
        write_durably(path, encode(_collect(site, components)))
    except OSError as error:
        log.error("%s can't be written (%s); a resumed session has new episodes.", path, error.strerror)


def restore_serial_state(site: Site, components: Mapping[str, Component]) -> bool:
    """Continues exactly where the last serial session stopped, if its state fits the checkpoints."""
    from sample_factory.model.checkpoint_format import CheckpointError, decode

    path: Path = site.directory / FILE_NAME
    if not path.exists():
        return False
    try:
        state = decode(path.read_bytes())
    except CheckpointError as error:
        log.warning("%s can't be used (%s); the session resumes with new episodes.", path, error)
        return False
    if state["versions"] != _versions(components):
        return False
    if state["shapes"] != _shapes(site):
        log.warning("The session has another shape than the last one; it resumes with new episodes.")
        return False
    if not all(
        split.vector.replay(saved) for split, saved in zip(_splits(components), state["vectors"], strict=True)
    ):
        log.warning("The environments can't be replayed; the session resumes with new episodes.")
        for split in _splits(components):
            split.vector.reset(split.carried_rows)
        return False
    _distribute(state, site, components)
    return True


def _collect(site: Site, components: Mapping[str, Component]) -> dict[str, Any]:
    import torch

    def tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}

    used = _used_slots(site)
    return {
        "versions": _versions(components),
        "shapes": _shapes(site),
        "vectors": [split.vector.state_dict() for split in _splits(components)],
        "splits": [split.state_dict() for split in _splits(components)],
        "acting": [acting.state_dict() for acting in _acting(components)],
        "pending": [[list(request) for request in worker.pending] for worker in _policy_workers(components)],
        "ready": [learner.batcher.ready_slots() for learner in _learners(components)],
        "iterations": [learner.iterations for learner in _learners(components)],
        "channels": [[list(record) for record in channel.records] for channel in _channels(site)],
        "numbers": tensors({name: array.copy() for name, array in site.numbers.items()}),
        "used_slots": used.tolist(),
        "trajectories": tensors({name: array[used] for name, array in site.trajectories.items()}),
    }


def _distribute(state: dict[str, Any], site: Site, components: Mapping[str, Component]) -> None:
    for name, array in site.numbers.items():
        array[:] = state["numbers"][name].numpy()
    used = np.array(state["used_slots"], np.int64)
    for name, array in site.trajectories.items():
        array[used] = state["trajectories"][name].numpy()
    for split, saved in zip(_splits(components), state["splits"], strict=True):
        split.load_state_dict(saved)
    for acting, saved in zip(_acting(components), state["acting"], strict=True):
        acting.load_state_dict(saved)
    for worker, requests in zip(_policy_workers(components), state["pending"], strict=True):
        worker.pending[:] = [ActionRequest(*request) for request in requests]
    for learner, slots, iterations in zip(
        _learners(components), state["ready"], state["iterations"], strict=True
    ):
        learner.batcher.restore_ready_slots(slots)
        learner.iterations = iterations
    for channel, records in zip(_channels(site), state["channels"], strict=True):
        channel.receive()
        channel.send(tuple(record) for record in records)


def _used_slots(site: Site) -> np.ndarray:
    return np.flatnonzero(site.numbers["slot_states"] != SlotState.FREE)


def _shapes(site: Site) -> dict[str, list[int]]:
    """Tells sessions with other numbers of workers, environments, policies or steps apart."""
    arrays = [*site.numbers.items(), *site.trajectories.items()]
    return {name: list(array.shape) for name, array in arrays}


def _versions(components: Mapping[str, Component]) -> list[int]:
    return [learner.learner.policy_version for learner in _learners(components)]


def _named(components: Mapping[str, Component], prefix: str) -> Iterable[Any]:
    return (component for name, component in components.items() if name.startswith(prefix))


def _learners(components: Mapping[str, Component]) -> list[Any]:
    return list(_named(components, "learner"))


def _policy_workers(components: Mapping[str, Component]) -> list[Any]:
    return list(_named(components, "policy_worker"))


def _splits(components: Mapping[str, Component]) -> list[Any]:
    return [split for worker in _named(components, "rollout_worker") for split in worker.splits]


def _acting(components: Mapping[str, Component]) -> Iterator[Any]:
    for worker in _named(components, "rollout_worker"):
        yield from getattr(worker.inference, "policies", {}).values()
    for worker in _policy_workers(components):
        yield worker.acting


def _channels(site: Site) -> Iterator[LocalChannel]:
    channels = site.channels
    policy_workers = chain.from_iterable(channels.policy_workers)
    for channel in (*channels.rollout_workers, *policy_workers, *channels.batchers):
        assert isinstance(channel, LocalChannel)
        yield channel

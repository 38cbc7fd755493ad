"""Several policies act while all their learners publish: no answer mixes versions or policies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from multiprocessing import get_context

import numpy as np
import pytest
from gymnasium import spaces

from sample_factory.algorithms.appo.acting import ActingPolicy
from sample_factory.algorithms.appo.inference import LocalInference
from sample_factory.algorithms.appo.trajectories import NO_POLICY, TrajectoryLayout, TrajectoryStore
from sample_factory.algorithms.appo.weights import WeightsLayout, WeightStore
from sample_factory.config.parsing import default_cfg
from sample_factory.model.actor_critic import ActorCritic, make_actor_critic
from sample_factory.processes.shared_memory import SharedArrays
from tests.experience.publishers import publish_telltales_for_ever

POLICIES, SLOTS, CHOICES = 3, 12, 4
FAR_APART = 1_000_000  # numbers of different policies; float32 holds them all exactly
OBSERVATION = spaces.Dict({"obs": spaces.Box(0.0, 1.0, (2,), np.float32)})


def make_model() -> ActorCritic:
    cfg = default_cfg()
    cfg.encoder_type, cfg.encoder_subtype = "mlp", "mlp_mujoco"
    cfg.hidden_size, cfg.use_rnn, cfg.nonlinearity = 128, False, "relu"
    return make_actor_critic(cfg, OBSERVATION, spaces.Discrete(CHOICES))


@pytest.fixture
def published() -> Iterator[tuple[WeightsLayout, list[SharedArrays]]]:
    """The weight stores of all policies, each with a process that publishes as fast as it can."""
    arrays_of_model = {name: tensor.numpy() for name, tensor in make_model().state_dict().items()}
    layout = WeightsLayout({name: (array.shape, str(array.dtype)) for name, array in arrays_of_model.items()})
    stores = [SharedArrays(layout.specs()) for _ in range(POLICIES)]
    processes = [
        get_context("forkserver").Process(
            target=publish_telltales_for_ever, args=(arrays, layout, FAR_APART * policy_id)
        )
        for policy_id, arrays in enumerate(stores)
    ]
    for process in processes:
        process.start()
    yield layout, stores
    for process in processes:
        process.kill()
        process.join(10.0)


@pytest.mark.parametrize("use_numpy", [False, True])
def test_every_answer_comes_from_one_version_of_the_policy_that_was_asked(
    published: tuple[WeightsLayout, list[SharedArrays]], use_numpy: bool
):
    layout, stores = published
    shapes = TrajectoryLayout(4, {"obs": ((2,), "float32")}, 1, CHOICES, 1)
    store = TrajectoryStore(shapes, SharedArrays(shapes.specs(SLOTS)))
    acting = {
        policy_id: ActingPolicy(
            make_model(), WeightStore(layout, arrays), store, seed=policy_id, use_numpy=use_numpy
        )
        for policy_id, arrays in enumerate(stores)
    }
    inference = LocalInference(acting)
    rng = np.random.default_rng(0)
    answers, seen = 0, [set[int]() for _ in range(POLICIES)]
    deadline = time.monotonic() + 60
    while answers < 400 and time.monotonic() < deadline:
        asked, row = rng.integers(POLICIES, size=SLOTS), int(rng.integers(4))
        slots = rng.permutation(SLOTS)
        store.outputs[:], store.policy_versions[:] = NO_POLICY, NO_POLICY
        if inference.request(0, 0, slots, asked, row):
            continue  # some have not published yet
        versions = store.policy_versions[slots, row]
        expected = np.repeat((FAR_APART * asked + versions)[:, None], CHOICES, axis=1)
        assert (store.outputs[slots, row, 1 : 1 + CHOICES] == expected).all()
        assert (store.outputs[slots, row, -1] == expected[:, 0]).all()
        for policy_id, version in zip(asked.tolist(), versions.tolist(), strict=True):
            seen[policy_id].add(version)
        answers += 1
    assert answers == 400
    assert min(len(versions) for versions in seen) > 20, "learners were too slow for this to mean anything"

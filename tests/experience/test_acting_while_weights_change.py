"""Several policies act at once, while all their learners publish: no answer mixes versions or policies."""

from __future__ import annotations

import copy
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


def make_model(action_space: spaces.Space | None = None) -> ActorCritic:
    cfg = default_cfg()
    cfg.encoder_type, cfg.encoder_subtype = "mlp", "mlp_mujoco"
    cfg.hidden_size, cfg.use_rnn, cfg.nonlinearity = 128, False, "relu"
    return make_actor_critic(cfg, OBSERVATION, action_space or spaces.Discrete(CHOICES))


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
    # On a busy machine it takes more answers until every policy has been seen in several versions.
    while (answers < 400 or min(map(len, seen)) <= 20) and time.monotonic() < deadline:
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
    assert answers >= 400
    assert min(map(len, seen)) > 20, "learners were too slow for this to mean anything"


def _as_published(model: ActorCritic, store: TrajectoryStore, version: int) -> ActingPolicy:
    """A policy that has yet to fetch this model's weights."""
    tensors = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    layout = WeightsLayout({name: (array.shape, str(array.dtype)) for name, array in tensors.items()})
    weights = WeightStore(layout, SharedArrays(layout.specs()))
    weights.publish(tensors, version)
    return ActingPolicy(copy.deepcopy(model), weights, store, seed=version, use_numpy=True)


@pytest.mark.parametrize("action_space", [spaces.Discrete(CHOICES), spaces.Box(-1, 1, (3,))], ids=str)
def test_policies_that_act_together_choose_what_each_would_choose_alone(
    action_space: spaces.Space, monkeypatch: pytest.MonkeyPatch
):
    models = [make_model(action_space) for _ in range(POLICIES)]
    num_actions, num_parameters = (1, CHOICES) if isinstance(action_space, spaces.Discrete) else (3, 6)
    shapes = TrajectoryLayout(4, {"obs": ((2,), "float32")}, num_actions, num_parameters, 1)

    def outputs(together: bool) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        store = TrajectoryStore(shapes, SharedArrays(shapes.specs(SLOTS)))
        store.obs["obs"][:] = rng.random(store.obs["obs"].shape)
        acting = {i: _as_published(model, store, 10 * i + 1) for i, model in enumerate(models)}
        inference = LocalInference(acting)
        for step in range(20):
            split_id, row = step % 2, step % 4
            slots, policies = rng.permutation(SLOTS), rng.integers(POLICIES, size=SLOTS).astype(np.int16)
            if together:
                assert not inference.request(split_id, step, slots, policies, row)
                continue
            for policy_id in np.unique(policies).tolist():
                assert acting[policy_id].refresh()
                acting[policy_id].act(slots[policies == policy_id], row)
        return store.outputs.copy(), store.policy_versions.copy()

    alone = outputs(together=False)
    monkeypatch.delattr(ActingPolicy, "act")  # so that they can't but act together
    together = outputs(together=True)
    # A product of more rows may round its last bit differently; who acted in which version may not.
    np.testing.assert_allclose(together[0], alone[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(together[1], alone[1])
    assert set(np.unique(alone[1])) == {1, 11, 21}

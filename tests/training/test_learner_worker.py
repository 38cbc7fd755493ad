"""The learner as a component: it takes over from a dead one, and no disk stops its training."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from sample_factory.algorithms.appo.batcher import Batch
from sample_factory.algorithms.appo.board import Board, Stopwatch
from sample_factory.algorithms.appo.learner import Learner
from sample_factory.algorithms.appo.learner_worker import LearnerLinks, LearnerWorker
from sample_factory.algorithms.appo.moments import moments_layout
from sample_factory.algorithms.appo.plan import Plan
from sample_factory.algorithms.appo.saving import BackgroundSaver
from sample_factory.algorithms.appo.weights import WeightsLayout, WeightStore
from sample_factory.model.checkpoints import CheckpointError, CheckpointStore
from sample_factory.processes.channels import LocalReporter
from sample_factory.processes.shared_memory import SharedArrays
from tests.training.hand_made import equal, make_batch, make_cfg, make_learner, weights


class EndlessBatcher:
    """Always has the next batch."""

    discarded = 0

    def __init__(self, learner: Learner):
        self._learner = learner
        self.taken = 0

    def __len__(self) -> int:
        return 8

    def take(self, count: int, final_apart: bool) -> Batch:
        self.taken += 1
        return make_batch(self._learner, seed=self.taken)

    def receive(self, timeout: float) -> None: ...

    def recover(self) -> None: ...

    def discard_older_than(self, version: int) -> None: ...

    def wake_waiting_workers(self) -> None: ...


class Place:
    """What learners of one policy share, whichever of them lives."""

    def __init__(self, directory: Path):
        self.cfg = make_cfg(save_every_sec=100, save_best_every_sec=100)
        plan = Plan.make(self.cfg, agents_per_env=1, num_gpus=0, seed=0)
        self.plan = plan
        shape = (1, plan.num_workers, plan.num_splits, plan.agents_per_split, len(plan.component_names()))
        self.board = Board(SharedArrays(Board.specs(*shape)))
        state = make_learner(self.cfg).model.state_dict()
        layout = WeightsLayout(
            {name: (tuple(t.shape), str(t.dtype).removeprefix("torch.")) for name, t in state.items()},
            moments_layout(make_learner(self.cfg).model),
        )
        self.weights = WeightStore(layout, SharedArrays(layout.specs()))
        self.directory = directory

    def learner_worker(self, is_restart: bool = False, seed: int = 0) -> LearnerWorker:
        learner = make_learner(self.cfg, seed=seed)
        links = LearnerLinks(
            board=self.board,
            weights=self.weights,
            reporter=LocalReporter(),
            beat=lambda: None,
            stopwatch=Stopwatch(self.board, 0),
            directory=self.directory,
        )
        batcher = EndlessBatcher(learner)
        return LearnerWorker(learner, batcher, links, self.plan, is_restart)  # type: ignore[arg-type]

    def saved_versions(self) -> list[int]:
        store = CheckpointStore(self.directory / "checkpoint_p0")
        return [file.policy_version for file in store.checkpoints()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_learner_goes_on_from_what_its_dead_predecessor_published(place: Place):
    dead = place.learner_worker()
    for _ in range(5):
        dead.poll(0.0)
    dead._collect_saves(wait=True)
    assert place.saved_versions() == [1]  # killed before the next save was due
    successor = place.learner_worker(is_restart=True, seed=99)
    assert successor.learner.policy_version == place.weights.version == 5
    assert equal(weights(successor.learner), weights(dead.learner))
    assert equal(successor.learner.moments(), dead.learner.moments())
    assert (successor.learner.env_steps, successor.learner.samples) == (240, 240)
    successor._collect_saves(wait=True)
    assert place.saved_versions() == [1, 5]  # or one learner after the other could die unsaved


def test_the_first_learner_of_a_session_does_not_look_at_published_weights(place: Place):
    first = place.learner_worker()
    for _ in range(3):
        first.poll(0.0)
    first._collect_saves(wait=True)
    assert place.learner_worker().learner.policy_version == 1


def test_a_learner_trains_while_a_slow_disk_takes_its_time(place: Place, monkeypatch: pytest.MonkeyPatch):
    trained, save = threading.Event(), CheckpointStore.save

    def slow_save(self: CheckpointStore, *args, **options) -> Path:
        assert trained.wait(30.0), "training waited for the disk"
        return save(self, *args, **options)

    monkeypatch.setattr(CheckpointStore, "save", slow_save)
    worker = place.learner_worker()
    for _ in range(4):
        worker.poll(0.0)
    assert worker.learner.policy_version == 4
    trained.set()
    worker.close()
    assert place.saved_versions() == [1, 4]


def test_what_is_saved_is_the_state_at_the_time_of_saving(place: Place, monkeypatch: pytest.MonkeyPatch):
    trained, save = threading.Event(), CheckpointStore.save

    def slow_save(self: CheckpointStore, *args, **options) -> Path:
        assert trained.wait(30.0)
        return save(self, *args, **options)

    monkeypatch.setattr(CheckpointStore, "save", slow_save)
    worker = place.learner_worker()
    worker.poll(0.0)
    after_one = weights(worker.learner)
    worker.poll(0.0)
    trained.set()
    worker._collect_saves(wait=True)
    found = CheckpointStore(place.directory / "checkpoint_p0").load_version(1)
    assert found is not None
    assert equal(found.state["model"], after_one)


def test_a_learner_that_can_not_save_at_the_end_says_so(place: Place, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object) -> None:
        raise CheckpointError("the disk is full.")

    worker = place.learner_worker()
    worker.poll(0.0)
    worker._collect_saves(wait=True)
    monkeypatch.setattr(CheckpointStore, "save", fail)
    worker.poll(0.0)
    with pytest.raises(CheckpointError, match="the disk is full"):
        worker.close()
    assert place.saved_versions() == [1]


@pytest.mark.parametrize(("per_iteration", "may_discard"), [(0, True), (1, False)])
def test_in_turns_nothing_is_dropped_that_everybody_waits_for(
    place: Place, monkeypatch: pytest.MonkeyPatch, per_iteration: int, may_discard: bool
):
    # Taking over a better policy's weights makes everything collected too old; waiting would never end.
    place.plan = replace(place.plan, trajectories_per_iteration=per_iteration)
    worker, limits = place.learner_worker(), []
    monkeypatch.setattr(worker.batcher, "discard_older_than", limits.append)
    worker.poll(0.0)
    assert bool(limits) == may_discard


def test_writes_happen_in_the_order_in_which_they_were_handed_over():
    saver, written, told = BackgroundSaver(), [], []
    for number in range(5):
        saver.hand_over(lambda n=number: written.append(n), on_success=lambda n=number: told.append(n))
    assert saver.under_way == 5
    assert saver.collect(all_of_them=True) == []
    assert written == told == [0, 1, 2, 3, 4]
    assert saver.under_way == 0
    saver.close()

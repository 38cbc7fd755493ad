"""What a session writes for people who look at its progress later."""

from __future__ import annotations

from pathlib import Path

import pytest

from sample_factory.algorithms.appo import learner_worker, progress
from tests.session.running import FEED_FORWARD, log_text, metric, train_serially
from tests.training import v1_tags

tensorboard = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory):
    """One session, looked at by all tests of this module."""
    from sample_factory.envs.registry import temporary_registrations
    from tests.doubles import register_doubles

    train_dir = tmp_path_factory.mktemp("train_dir")
    with pytest.MonkeyPatch.context() as patch, temporary_registrations():
        register_doubles()
        patch.setattr(learner_worker, "train_summary_due", lambda *_: True)
        patch.setattr(progress, "FPS_RECORD_SEC", 0.0)
        patch.setattr(progress, "VERDICT_SEC", 0.0)
        patch.setattr(progress, "episodic_summary_due", lambda *_: True)
        flags = (*FEED_FORWARD, "--stats_avg=5", "--train_for_env_steps=1000", "--inference=policy_workers")
        train_serially(train_dir, "double_continuous", *flags)
    return train_dir


@pytest.fixture(scope="module")
def events(experiment: Path):
    directory = experiment / "experiment" / ".summary" / "0"
    accumulator = tensorboard.EventAccumulator(str(directory), size_guidance={"histograms": 0, "scalars": 0})
    accumulator.Reload()
    return accumulator


TRAIN_TAGS = [
    f"train/{name}" for name in (*v1_tags.TRAIN, *v1_tags.TRAIN_OF_LEARNER, *v1_tags.TRAIN_GAUSSIAN)
]


@pytest.mark.parametrize("tag", [*TRAIN_TAGS, *v1_tags.EPISODES, *v1_tags.SPEED])
def test_every_tag_of_v1_is_written(experiment: Path, events, tag: str):
    assert tag in events.Tags()["scalars"]
    assert metric(experiment, tag)


def test_both_files_tell_the_same(experiment: Path, events):
    in_events = [event.value for event in events.Scalars("train/loss")]
    assert in_events == pytest.approx(metric(experiment, "train/loss"), rel=1e-5)


def test_the_axis_is_the_policys_frames(events):
    steps = [event.step for event in events.Scalars("train/loss")]
    assert steps[:3] == [64, 128, 192]
    assert steps == sorted(steps)


def test_the_lag_histogram_counts_every_step_of_a_batch(events):
    histograms = events.Histograms("train/policy_lag")
    assert [event.histogram_value.num for event in histograms][:3] == [64.0, 64.0, 64.0]


def test_how_components_spend_their_time_is_written(events):
    tags = events.Tags()["scalars"]
    assert {"stats/environment_percent", "stats/inference_percent", "stats/learner_percent"} <= set(tags)


def test_the_log_tells_what_runs_and_how_it_ended(experiment: Path):
    text = log_text(experiment)
    assert "2 rollout workers with 4 environments each, inference in policy workers" in text
    assert "Policy 0 starts from scratch." in text
    assert "Speed is limited by" in text
    assert "Collected {0: 10" in text


def test_the_mean_reward_is_that_of_the_environment(experiment: Path):
    # 16 steps, each paying minus a squared distance that is at most 4.
    assert all(-64.0 <= value <= 0.0 for value in metric(experiment, "0_aux/avg_reward"))
    assert set(metric(experiment, "0_aux/avg_len")) == {16.0}

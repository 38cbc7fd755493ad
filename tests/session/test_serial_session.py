"""The life of a session and what it leaves on disk, watched in serial mode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from sample_factory.algorithms.appo import learner_worker, session
from sample_factory.algorithms.appo.exits import ExitStatus
from sample_factory.config.errors import ConfigError
from sample_factory.model.checkpoints import CheckpointStore
from tests.session.running import (
    FEED_FORWARD,
    latest,
    log_text,
    metric,
    same_weights,
    train_serially,
    weights,
)

ENV = "gym_CartPole-v1"


def _directory(tmp_path: Path) -> Path:
    return tmp_path / "experiment"


def _saved_cfg(tmp_path: Path) -> dict:
    return json.loads((_directory(tmp_path) / "cfg.json").read_text())


def test_a_session_trains_until_its_target_and_says_so(tmp_path: Path):
    assert train_serially(tmp_path, ENV, *FEED_FORWARD, "--train_for_env_steps=300") is ExitStatus.SUCCESS
    found = latest(tmp_path)
    assert found.env_steps > 300
    assert found.policy_version >= 4
    assert f"Collected {{0: {found.env_steps}}}, FPS: " in log_text(tmp_path)
    assert (_directory(tmp_path) / "done").exists()


def test_the_settings_are_written_down(tmp_path: Path):
    train_serially(tmp_path, ENV, *FEED_FORWARD, "--train_for_env_steps=300", "--gamma=0.97")
    saved = _saved_cfg(tmp_path)
    assert (saved["gamma"], saved["env"], saved["train_for_env_steps"]) == (0.97, ENV, 300)


def test_a_second_start_of_a_complete_experiment_returns_at_once(tmp_path: Path):
    train_serially(tmp_path, ENV, *FEED_FORWARD, "--train_for_env_steps=300")
    before = latest(tmp_path)
    assert train_serially(tmp_path, ENV, *FEED_FORWARD, "--train_for_env_steps=300") is ExitStatus.SUCCESS
    assert latest(tmp_path).policy_version == before.policy_version
    assert "type a higher --train_for_env_steps (now 300)" in log_text(tmp_path)


def test_a_complete_experiment_goes_on_when_more_is_asked_for(tmp_path: Path):
    train_serially(tmp_path, ENV, *FEED_FORWARD, "--train_for_env_steps=300")
    train_serially(tmp_path, ENV, *FEED_FORWARD, "--train_for_env_steps=700")
    assert latest(tmp_path).env_steps > 700
    train_serially(tmp_path, ENV, *FEED_FORWARD, "--train_for_env_steps=700")
    assert latest(tmp_path).env_steps < 900


def test_what_was_typed_once_is_remembered_and_what_is_typed_now_counts(tmp_path: Path):
    first = (*FEED_FORWARD, "--gamma=0.9", "--hidden_size=24", "--train_for_env_steps=300")
    train_serially(tmp_path, ENV, *first)
    train_serially(tmp_path, ENV, "--hidden_size=24", "--ppo_clip_ratio=0.3", "--train_for_env_steps=500")
    saved = _saved_cfg(tmp_path)
    assert (saved["gamma"], saved["use_rnn"], saved["ppo_clip_ratio"]) == (0.9, False, 0.3)


def test_time_is_a_limit_too(tmp_path: Path):
    flags = (*FEED_FORWARD, "--train_for_seconds=1", "--train_for_env_steps=1000000000")
    assert train_serially(tmp_path, ENV, *flags) is ExitStatus.SUCCESS
    assert latest(tmp_path).env_steps > 0


def test_restarting_keeps_the_old_experiment_under_another_name(tmp_path: Path):
    train_serially(tmp_path, ENV, *FEED_FORWARD, "--train_for_env_steps=600")
    flags = (*FEED_FORWARD, "--restart_behavior=restart", "--train_for_env_steps=200")
    train_serially(tmp_path, ENV, *flags)
    assert latest(tmp_path, "experiment_old0001").env_steps > 600
    assert latest(tmp_path).env_steps < 400


def test_resuming_with_another_number_of_environments_starts_new_episodes(tmp_path: Path):
    train_serially(tmp_path, ENV, *FEED_FORWARD, "--train_for_env_steps=300")
    before = latest(tmp_path)
    flags = (*FEED_FORWARD, "--num_workers=1", "--num_envs_per_worker=6", "--train_for_env_steps=600")
    assert train_serially(tmp_path, ENV, *flags) is ExitStatus.SUCCESS
    assert latest(tmp_path).policy_version > before.policy_version


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(learner_worker.time, "monotonic", _clock(step=1.0))
    flags = (*FEED_FORWARD, "--save_every_sec=1", "--keep_checkpoints=2", "--train_for_env_steps=600")
    train_serially(tmp_path, ENV, *flags)
    store = CheckpointStore(_directory(tmp_path) / "checkpoint_p0")
    versions = [file.policy_version for file in store.checkpoints()]
    assert len(versions) == 2
    assert versions[-1] == latest(tmp_path).policy_version


def test_milestones_are_kept_beside_the_rolling_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(learner_worker.time, "monotonic", _clock(step=1.0))
    flags = ("--save_every_sec=1", "--save_milestones_sec=20", "--train_for_env_steps=1000")
    train_serially(tmp_path, ENV, *FEED_FORWARD, *flags)
    store = CheckpointStore(_directory(tmp_path) / "checkpoint_p0")
    assert len(store.milestones()) >= 2
    assert store.load_milestone() is not None


def test_no_milestones_are_written_unless_asked_for(tmp_path: Path):
    train_serially(tmp_path, ENV, *FEED_FORWARD, "--save_every_sec=1", "--train_for_env_steps=600")
    assert CheckpointStore(_directory(tmp_path) / "checkpoint_p0").milestones() == []


BEST = ("--stats_avg=5", "--save_best_every_sec=1", "--save_best_after=0", "--train_for_env_steps=1500")


def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reading of the clock is a second later than the last, so whatever is periodical happens often."""
    monkeypatch.setattr(learner_worker.time, "monotonic", _clock(step=1.0))


def _clock(step: float):
    now = 0.0

    def monotonic() -> float:
        nonlocal now
        now += step
        return now

    return monotonic


def test_the_best_policy_is_kept_under_the_metric_and_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    _impatient(monkeypatch)
    train_serially(tmp_path, ENV, *FEED_FORWARD, *BEST)
    files = CheckpointStore(_directory(tmp_path) / "checkpoint_p0").best_checkpoints()
    assert len(files) == 1
    assert "_reward_" in files[0].path.name


def test_the_best_policy_can_be_what_a_session_goes_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _impatient(monkeypatch)
    train_serially(tmp_path, ENV, *FEED_FORWARD, *BEST)
    best = CheckpointStore(_directory(tmp_path) / "checkpoint_p0").load_best()
    assert best is not None
    flags = ("--load_checkpoint_kind=best", "--train_for_env_steps=1600", "--learning_rate=1e-12")
    train_serially(tmp_path, ENV, *FEED_FORWARD, *flags)
    torch.testing.assert_close(weights(tmp_path), best.state["model"], rtol=0, atol=1e-6)


def test_a_damaged_checkpoint_costs_the_steps_since_the_one_before(tmp_path: Path):
    train_serially(tmp_path, ENV, *FEED_FORWARD, "--train_for_env_steps=300")
    newest = latest(tmp_path)
    newest.path.write_bytes(newest.path.read_bytes()[:-50])
    assert train_serially(tmp_path, ENV, *FEED_FORWARD, "--train_for_env_steps=600") is ExitStatus.SUCCESS
    assert "DAMAGED CHECKPOINT" in log_text(tmp_path)
    assert latest(tmp_path).env_steps > 600


def test_sampler_only_counts_frames_and_trains_nothing(tmp_path: Path):
    train_serially(tmp_path, ENV, *FEED_FORWARD, "--sampler_only=True", "--train_for_env_steps=300")
    found = latest(tmp_path)
    assert found.env_steps > 300
    assert found.policy_version == 0


@pytest.mark.parametrize("limit", ["BENCHMARK_FRAMES", "BENCHMARK_SAMPLES"])
def test_a_benchmark_stops_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str):
    monkeypatch.setattr(session, limit, 400)
    assert train_serially(tmp_path, ENV, *FEED_FORWARD, "--benchmark=True") is ExitStatus.SUCCESS
    assert 400 <= latest(tmp_path).env_steps < 700
    assert (_directory(tmp_path) / "done").exists()


def test_wrong_settings_are_all_reported_and_leave_nothing_behind(tmp_path: Path):
    with pytest.raises(ConfigError) as caught:
        train_serially(tmp_path, ENV, "--batch_size=65", "--ppo_clip_ratio=-1")
    assert len(caught.value.problems) == 2
    assert not _directory(tmp_path).exists()


def test_sync_mode_with_a_batch_that_does_not_fit_is_refused_before_anything_starts(tmp_path: Path):
    with pytest.raises(ConfigError, match="--async_rl=False needs --batch_size=96"):
        train_serially(tmp_path, ENV, *FEED_FORWARD, "--async_rl=False", "--batch_size=96")


def test_in_sync_mode_no_step_is_older_than_the_policy_that_learns_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(learner_worker, "train_summary_due", lambda *_: True)
    flags = ("--async_rl=False", "--ppo_epochs=3", "--train_for_env_steps=600")
    train_serially(tmp_path, ENV, *FEED_FORWARD, *flags)
    lags = metric(tmp_path, "train/version_diff_max")
    assert len(lags) >= 8
    assert set(lags) == {0.0}


def test_two_policies_have_their_own_checkpoints_summaries_and_counters(tmp_path: Path):
    train_serially(tmp_path, ENV, *FEED_FORWARD, "--num_policies=2", "--train_for_env_steps=300")
    assert not same_weights(weights(tmp_path, policy_id=0), weights(tmp_path, policy_id=1))
    for policy_id in (0, 1):
        assert latest(tmp_path, policy_id=policy_id).env_steps > 300
        assert list((_directory(tmp_path) / ".summary" / str(policy_id)).glob("events.out.tfevents.*"))
        assert metric(tmp_path, "train/loss", policy_id=policy_id)


def test_frames_are_counted_with_the_frameskip(tmp_path: Path):
    flags = ("--env_frameskip=4", "--train_for_env_steps=1000")
    train_serially(tmp_path, "gym_MountainCar-v0", *FEED_FORWARD, *flags)
    found = latest(tmp_path)
    assert found.state["env_steps"] == pytest.approx(4 * found.state["samples"], rel=0.1)

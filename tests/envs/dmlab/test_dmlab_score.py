"""The human-normalised score and the objective of population-based training."""

from __future__ import annotations

import pytest

from sample_factory.envs.dmlab.family import make_summaries_hook
from sample_factory.envs.dmlab.levels import DMLAB30
from sample_factory.envs.dmlab.score import Dmlab30Scores, human_normalised
from sample_factory.envs.extra_summaries import ExtraSummaries, NoExtraSummaries

# Published human-normalised scores (%) of 10e9 frames of training with four policies, by task id.
PUBLISHED = {
    0: 93.1,
    1: 43.9,
    2: 49.6,
    3: 35.9,
    4: 45.4,
    5: 145.9,
    6: 91.6,
    7: 22.2,
    8: 122.8,
    9: 0.98,
    10: 0.34,
    11: 0.0,
    12: 0.07,
    13: 22.9,
    14: 62.5,
    15: 68.4,
    16: 31.9,
    17: 47.4,
    18: 51.8,
    19: 52.3,
    20: 76.5,
    21: 100.3,
    22: 104.3,
    23: 88.8,
    24: 127.6,
    25: 75.1,
    26: 130.3,
    27: 81.2,
    28: 57.3,
    29: 57.8,
}


def feed(scores: Dmlab30Scores, policy_id: int, task_id: int, raw_score: float) -> None:
    name = DMLAB30[task_id].name
    scores.on_episode(
        policy_id,
        {f"z_{task_id:02d}_{name}_dmlab_raw_score": raw_score, f"z_{task_id:02d}_{name}_len": 3600},
    )


def feed_published(scores: Dmlab30Scores, policy_id: int) -> None:
    for task_id, percent in PUBLISHED.items():
        level = DMLAB30[task_id]
        raw = level.random_score + percent / 100 * (level.human_score - level.random_score)
        feed(scores, policy_id, task_id, raw)


def test_a_random_policy_scores_0_and_a_human_100():
    watermaze = DMLAB30[3]
    assert human_normalised(watermaze, 4.065) == 0.0
    assert human_normalised(watermaze, 54) == 100.0
    assert human_normalised(watermaze, 29.0325) == pytest.approx(50.0)


def test_nothing_is_scored_until_every_level_has_finished_an_episode():
    scores = Dmlab30Scores()
    for task_id in range(29):
        feed(scores, 0, task_id, 1.0)
        assert scores.collect(0) == {}
    assert scores.objectives(0) == {}
    feed(scores, 0, 29, 1.0)
    assert scores.collect(0)


def test_published_levels_give_the_published_capped_mean():
    scores = Dmlab30Scores()
    feed_published(scores, 0)
    tags = scores.collect(0)
    assert tags["_dmlab/000_capped_mean_human_norm_score"] == pytest.approx(58.57, abs=0.01)
    assert tags["_dmlab/000_mean_human_norm_score"] == pytest.approx(62.9, abs=0.05)


def test_the_capped_mean_is_what_population_based_training_ranks_by():
    scores = Dmlab30Scores()
    feed_published(scores, 2)
    tags = scores.collect(2)
    assert scores.objectives(2) == {"dmlab_target_objective": tags["_dmlab/000_capped_mean_human_norm_score"]}
    assert tags["0_aux/avg_dmlab_target_objective"] == tags["_dmlab/000_capped_mean_human_norm_score"]


def test_every_level_gets_a_plain_and_a_capped_tag():
    scores = Dmlab30Scores()
    feed_published(scores, 0)
    tags = scores.collect(0)
    assert len(tags) == 2 * 30 + 2 + 1
    name = "language_select_described_object_human_norm_score"
    assert tags[f"_dmlab/05_{name}"] == pytest.approx(145.9)
    assert tags[f"_dmlab/capped_05_{name}"] == 100.0


def test_capping_comes_after_averaging_over_the_episodes_of_a_level():
    scores = Dmlab30Scores()
    for task_id in range(1, 30):
        feed(scores, 0, task_id, DMLAB30[task_id].random_score)
    # Collecting good objects: a human gets 10. A return of 20 and one of 0 average to that.
    feed(scores, 0, 0, 20.0)
    feed(scores, 0, 0, 0.0)
    assert scores.collect(0)["_dmlab/000_capped_mean_human_norm_score"] == pytest.approx(100.0 / 30)


def test_counting_starts_anew_after_a_score():
    scores = Dmlab30Scores()
    feed_published(scores, 0)
    scores.collect(0)
    feed(scores, 0, 0, 5.0)
    assert scores.collect(0) == {}


def test_the_objective_stays_until_there_is_a_new_one():
    scores = Dmlab30Scores()
    feed_published(scores, 0)
    scores.collect(0)
    before = scores.objectives(0)
    scores.collect(0)
    assert scores.objectives(0) == before


def test_policies_are_scored_apart():
    scores = Dmlab30Scores()
    feed_published(scores, 0)
    feed(scores, 1, 0, 5.0)
    assert scores.collect(1) == {}
    assert scores.collect(0)


def test_statistics_of_other_kinds_are_ignored():
    scores = Dmlab30Scores()
    for task_id in range(30):
        scores.on_episode(0, {f"z_{task_id:02d}_{DMLAB30[task_id].name}_len": 3600, "reward": 1.0})
    assert scores.collect(0) == {}


def test_only_the_whole_benchmark_has_a_score(make_cfg):
    assert isinstance(make_summaries_hook(make_cfg("dmlab_30")), Dmlab30Scores)
    assert isinstance(make_summaries_hook(make_cfg("dmlab_benchmark")), NoExtraSummaries)


@pytest.mark.parametrize("summaries", [Dmlab30Scores(), NoExtraSummaries()])
def test_summaries_offer_what_the_session_calls(summaries: ExtraSummaries):
    assert isinstance(summaries, ExtraSummaries)
    assert summaries.collect(0) == {}
    assert summaries.objectives(0) == {}

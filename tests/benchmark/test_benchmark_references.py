"""Normalisation: which scores count as 0 and 1."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sample_factory.benchmark.atari_scores import ATARI_SCORES
from sample_factory.benchmark.errors import BenchmarkError
from sample_factory.benchmark.references import human_scores, read_baselines, reference_table
from sample_factory.benchmark.runs import Run
from sample_factory.envs.atari.games import GAMES


def runs(env: str, *scores: float, **known: float) -> list[Run]:
    return [Run(Path("x"), "A", env, score=score, **known) for score in scores]  # type: ignore[arg-type]


def ends(
    kind: str, of: list[Run], baselines: dict[str, dict[str, float]] | None = None
) -> tuple[float, float]:
    (reference,) = reference_table(kind, of, baselines or {}).references.values()
    return reference.low, reference.high


def test_every_atari_game_has_scores() -> None:
    assert set(ATARI_SCORES) == set(GAMES)


def test_humans_beat_chance_in_every_atari_game() -> None:
    assert all(human > random for random, human in ATARI_SCORES.values())


@pytest.mark.parametrize(
    "env",
    ["atari_space_invaders", "atari_spaceinvaders", "SpaceInvadersNoFrameskip-v4", "ALE/SpaceInvaders-v5"],
)
def test_a_game_is_known_by_all_its_names(env: str) -> None:
    assert human_scores(env) == (148.0, 1668.7)


def test_levels_of_dmlab_30_have_human_scores() -> None:
    scores = human_scores("dmlab_contributed/dmlab30/rooms_watermaze")
    assert scores is not None and scores[0] < scores[1]


def test_other_environments_have_no_human_score() -> None:
    with pytest.raises(BenchmarkError, match="no human score of doom_basic"):
        reference_table("human", runs("doom_basic", 1.0), {})


def test_a_score_is_placed_between_its_references() -> None:
    table = reference_table("table", runs("e", 1.0), {"e": {"random": 10.0, "expert": 30.0}})
    assert table.references["e"].normalize(np.array([10.0, 20.0, 40.0])).tolist() == [0.0, 0.5, 1.5]


def test_experts_come_from_the_runs_and_chance_from_the_table() -> None:
    assert ends("random_expert", runs("e", 1.0, expert_score=50.0), {"e": {"random": 5.0}}) == (5.0, 50.0)


def test_minmax_spans_all_compared_runs() -> None:
    assert ends("minmax", runs("e", 3.0, -1.0, 2.0)) == (-1.0, 3.0)


def test_a_missing_end_is_an_error_that_names_the_environment() -> None:
    with pytest.raises(BenchmarkError, match="needs the expert score of e"):
        reference_table("random_expert", runs("e", 1.0), {"e": {"random": 0.0}})


def test_equal_ends_are_an_error_that_names_the_environment() -> None:
    with pytest.raises(BenchmarkError, match="e can't be normalised"):
        reference_table("minmax", runs("e", 2.0, 2.0), {})


@pytest.mark.parametrize(
    ("env", "baselines", "expected"),
    [
        ("atari_pong", {"atari_pong": {"random": 0.0, "expert": 1.0}}, "table"),
        ("atari_pong", {}, "human"),
        ("doom_basic", {}, "none"),
    ],
)
def test_auto_takes_the_best_table_that_knows_all_environments(
    env: str, baselines: dict[str, dict[str, float]], expected: str
) -> None:
    assert reference_table("auto", runs(env, 1.0), baselines).kind == expected


@pytest.mark.parametrize("content", ["[1]", '{"e": 3}', '{"e": {"random": "low"}}', "not json"])
def test_a_table_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(content)
    with pytest.raises(BenchmarkError, match="--baselines="):
        read_baselines(path)


def test_a_table_is_read(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(json.dumps({"e": {"random": 0, "expert": 2, "source": "paper"}}))
    assert read_baselines(path) == {"e": {"random": 0.0, "expert": 2.0}}

"""Matches between trained policies: who sits where, who wins, what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sample_factory.algorithms.appo.scripts.multi_agent_match import main
from sample_factory.config.parsing import parse_args
from sample_factory.evaluation.match import MatchResult, Record
from sample_factory_examples.train_rock_paper_scissors import register_custom_components
from tests.evaluation.conftest import NETWORK, save_steady_policy

ROCK, PAPER, SCISSORS = range(3)


@pytest.fixture(autouse=True)
def rock_paper_scissors(environments: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register_custom_components()
    monkeypatch.chdir(tmp_path)


def put(
    train_dir: Path, experiment: str, action: int, policy_index: int = 0, env: str = "weighted_rps"
) -> None:
    """An experiment whose policy always plays the same."""
    flags = [
        "--algo=APPO",
        f"--env={env}",
        f"--experiment={experiment}",
        f"--train_dir={train_dir}",
        *NETWORK,
    ]
    save_steady_policy(parse_args(flags), action, policy_index)


def test_the_better_policy_wins_from_either_side(tmp_path: Path):
    put(tmp_path, "cutter", SCISSORS)
    put(tmp_path, "wrapper", PAPER)
    assert main(["wrapper", "cutter", f"--train_dir={tmp_path}", "--num_matches=6", "--json=out.json"]) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    assert (result["won"], result["drawn"], result["lost"]) == (0, 0, 6)
    assert result["scores"] == [[-2.0, 2.0]] * 6
    assert result["first_sides"] == [0, 1, 0, 1, 0, 1]
    assert result["rivals"] == ["wrapper", "cutter"]


def test_the_result_is_written_as_v1_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    put(tmp_path, "a", ROCK)
    put(tmp_path, "b", SCISSORS)
    main(["a", "b", f"--train_dir={tmp_path}", "--num_matches=2"])
    text = (tmp_path / "eval_avsb.txt").read_text()
    assert "a against b: 2 won, 0 drawn, 0 lost." in text
    assert "a against b: 2 won, 0 drawn, 0 lost." in capsys.readouterr().out


def test_policies_of_one_experiment_play_each_other(tmp_path: Path):
    put(tmp_path, "both", ROCK, policy_index=0)
    put(tmp_path, "both", ROCK, policy_index=1)
    main(["both", "both", f"--train_dir={tmp_path}", "--num_matches=3", "--policies", "0", "1"])
    assert "both_p0 against both_p1: 0 won, 3 drawn" in (tmp_path / "eval_both_p0vsboth_p1.txt").read_text()


def test_a_game_for_one_is_refused_with_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    put(tmp_path, "alone", 0, env="double_counting")
    assert main(["alone", "alone", f"--train_dir={tmp_path}"]) == 1
    assert "has one agent" in capsys.readouterr().err


def test_rivals_of_different_games_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    put(tmp_path, "rps", ROCK)
    put(tmp_path, "agree", 0, env="double_two_agents")
    assert main(["rps", "agree", f"--train_dir={tmp_path}"]) == 1
    assert "trained on the same environment" in capsys.readouterr().err


def test_an_experiment_that_does_not_exist_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    put(tmp_path, "here", ROCK)
    with pytest.raises(SystemExit, match="2"):
        main(["here", "hre", f"--train_dir={tmp_path}"])
    assert "did you mean --experiment=here" in capsys.readouterr().err


def test_points_interval_and_elo_follow_from_the_matches():
    won, lost, drawn = (MatchResult(0, scores, 1) for scores in ((1.0, 0.0), (0.0, 1.0), (2.0, 2.0)))
    record = Record([won] * 7 + [lost] * 2 + [drawn])
    assert record.points == 0.75
    # Wilson's interval for 7.5 of 10, and 400 log10(3), from the formulas.
    assert record.interval() == pytest.approx((0.4422, 0.9191), abs=5e-4)
    assert record.elo_difference() == pytest.approx(190.85, abs=0.01)
    assert Record([won]).elo_difference() == 800.0

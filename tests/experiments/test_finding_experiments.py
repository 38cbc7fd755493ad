"""Experiments are found wherever they lie in a train_dir, and chosen by masks."""

from pathlib import Path

import pytest

from sample_factory.experiments.errors import ExperimentsError
from sample_factory.experiments.files import (
    best_scores,
    find_experiments,
    media_files,
    newest_records,
    read_tail,
    select,
)
from tests.experiments.experiment_folders import write_experiment


@pytest.fixture(scope="module")
def train_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("train_dir")
    for name in ("doom_a", "doom_b", "sweep/grid_/00_x_see_1", "sweep/grid_/01_x_see_2"):
        write_experiment(root / name)
    (root / "notes").mkdir()
    (root / "notes" / "todo.txt").touch()
    return root


def test_experiments_are_found_at_any_depth(train_dir: Path) -> None:
    found = list(find_experiments(train_dir))
    assert found == ["doom_a", "doom_b", "sweep/grid_/00_x_see_1", "sweep/grid_/01_x_see_2"]


def test_links_to_directories_are_not_followed(train_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(train_dir / "doom_a")
    assert find_experiments(tmp_path) == {}


def test_an_experiment_of_v1_has_only_its_cfg(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "cfg.json").write_text('{"env": "doom_battle", "algo": "APPO"}')
    assert list(find_experiments(tmp_path)) == ["old"]


def test_a_missing_directory_names_the_flag(tmp_path: Path) -> None:
    with pytest.raises(ExperimentsError, match="--train_dir=DIR"):
        find_experiments(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("mask", "chosen"),
    [
        ("doom_*", ["doom_a", "doom_b"]),
        ("sweep", ["sweep/grid_/00_x_see_1", "sweep/grid_/01_x_see_2"]),
        ("sweep/grid_/", ["sweep/grid_/00_x_see_1", "sweep/grid_/01_x_see_2"]),
        ("01_*", ["sweep/grid_/01_x_see_2"]),
    ],
)
def test_masks_choose_by_name_last_part_or_folder(train_dir: Path, mask: str, chosen: list[str]) -> None:
    assert list(select(find_experiments(train_dir), [mask])) == chosen


def test_a_mask_without_a_match_suggests_the_nearest_name(train_dir: Path) -> None:
    with pytest.raises(ExperimentsError, match="did you mean doom_a"):
        select(find_experiments(train_dir), ["doom_aa"])


def test_a_tail_begins_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("first\nsecond\nthird\n")
    assert read_tail(path, 10) == ("third\n", False)
    assert read_tail(path, 100) == ("first\nsecond\nthird\n", True)
    assert read_tail(tmp_path / "missing") == ("", True)


def test_torn_lines_are_left_out_of_records(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"a": 1}\n{"a": 2\n{"a": 3}\n[4]\n')
    assert list(newest_records(read_tail(path))) == [{"a": 3}, {"a": 1}]


def test_the_best_checkpoints_name_tells_its_score(tmp_path: Path) -> None:
    for policy, name in (
        (0, "best_000000010_4000_reward_-1.250.pth"),
        (1, "best_000000010_4000_a_b_7.500.pth"),
    ):
        folder = tmp_path / f"checkpoint_p{policy}"
        folder.mkdir()
        (folder / name).touch()
        (folder / "checkpoint_000000010_4000.pth").touch()
    assert best_scores(tmp_path) == {0: -1.25, 1: 7.5}


def test_media_are_found_without_links(tmp_path: Path) -> None:
    (tmp_path / "eval").mkdir()
    for name in ("replay.mp4", "eval/curve.png", "sf_log.txt"):
        (tmp_path / name).touch()
    (tmp_path / "elsewhere.mp4").symlink_to("/etc/hostname")
    assert {path.relative_to(tmp_path).as_posix() for path in media_files(tmp_path)} == {
        "replay.mp4",
        "eval/curve.png",
    }

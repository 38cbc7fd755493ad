"""Every name of the family through the contract, on the stand-in."""

from pathlib import Path

import pytest

from sample_factory.envs.dmlab.levels import DMLAB30
from tests.envs.contract_check import check_env

pytestmark = pytest.mark.usefixtures("deepmind_lab")

SHORT_NAMES = (
    "dmlab_30",
    "dmlab_benchmark",
    "dmlab_benchmark_slow_reset",
    "dmlab_collect_good_objects",
    "dmlab_level_cache",
    "dmlab_nonmatch",
    "dmlab_sparse",
    "dmlab_sparse_doors",
    "dmlab_very_sparse",
    "dmlab_watermaze",
)
LEVELS = tuple(f"dmlab_{level.path}" for level in DMLAB30)


@pytest.mark.parametrize("name", SHORT_NAMES + LEVELS)
def test_every_name_keeps_the_contract_for_200_steps(name: str, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("DMLAB_STANDIN_EPISODE_FRAMES", "300")
    overrides = {
        "train_dir": str(tmp_path),
        "dmlab_level_cache_path": str(tmp_path / "cache"),
        "dmlab30_dataset": str(tmp_path),
    }
    report = check_env(name, overrides, steps=200)
    assert (report.episodes, report.frames) == (2, 800)


def test_there_are_thirty_levels():
    assert len(set(LEVELS)) == 30

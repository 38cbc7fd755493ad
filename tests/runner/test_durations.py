"""Time limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_factory.runner.durations import CALIBERS, Caliber, find_caliber, parse_duration, slurm_time
from sample_factory.runner.errors import RunnerError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("30", 1800),
        ("2:30", 150),
        ("1:02:03", 3723),
        ("2-03", 183600),
        ("1-02:30", 95400),
        ("4-00:00:00", 345600),
        ("30m", 1800),
        ("2h", 7200),
        ("1d", 86400),
        ("1d12h", 129600),
        ("90s", 90),
    ],
)
def test_a_duration_means_what_slurm_and_people_mean(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "2 h 5", "-5", "1-"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(RunnerError, match="--time=2h"):
        parse_duration(text)


@given(st.integers(0, 10**7))
def test_a_duration_survives_being_written_for_slurm(seconds: int) -> None:
    assert parse_duration(slurm_time(seconds)) == seconds


def test_calibers_grow_from_ten_minutes_to_a_week() -> None:
    seconds = [find_caliber(name).seconds for name in CALIBERS]
    assert seconds == sorted(seconds)
    assert (seconds[0], seconds[-1]) == (600, 7 * 86400)


def test_an_unknown_caliber_lists_the_known_ones() -> None:
    with pytest.raises(RunnerError, match=r"debug, veryveryshort, .*veryveryverylong"):
        find_caliber("tiny")


def test_a_file_changes_calibers_and_says_where_each_one_runs(tmp_path):
    path = tmp_path / "calibers.yaml"
    path.write_text("short: {partition: shared-gpu}\nlong: 8h\ntiny: {time: 1m, partition: debug-cpu}\n")
    assert find_caliber("short", str(path)) == Caliber(6 * 3600, "shared-gpu")
    assert find_caliber("long", str(path)) == Caliber(8 * 3600, None)
    assert find_caliber("tiny", str(path)) == Caliber(60, "debug-cpu")
    assert find_caliber("daylong", str(path)) == Caliber(86400, None)


@pytest.mark.parametrize("text", ["tiny: {partition: p}", "tiny: {tme: 1h}", "tiny: [1]"])
def test_a_file_of_calibers_that_makes_no_sense_is_refused(tmp_path, text):
    path = tmp_path / "calibers.yaml"
    path.write_text(text)
    with pytest.raises(RunnerError, match="--calibers="):
        find_caliber("short", str(path))

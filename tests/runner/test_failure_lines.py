"""Why a job failed, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sample_factory.runner.failure import cause_in, root_error

TRACEBACK = """\
Loading: fine
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    f()
ValueError: bad value: 3
"""


def test_the_exception_of_a_traceback_is_the_cause() -> None:
    assert cause_in(TRACEBACK) == "ValueError: bad value: 3"


def test_lines_after_the_traceback_do_not_hide_it() -> None:
    assert cause_in(TRACEBACK + "[12:00] Shutting down\nBye\n") == "ValueError: bad value: 3"


def test_the_last_of_several_exceptions_counts() -> None:
    chained = (
        TRACEBACK
        + "During handling of the above exception...\n"
        + TRACEBACK.replace("ValueError", "my.OwnError")
    )
    assert cause_in(chained) == "my.OwnError: bad value: 3"


def test_without_a_traceback_the_last_complaint_is_the_cause() -> None:
    assert cause_in("start\nerror: --env is missing.\nusage\n") == "error: --env is missing."


def test_without_any_complaint_it_is_the_last_line() -> None:
    assert cause_in("one\n\x1b[31mtwo\x1b[0m\n\n") == "two"


def test_an_ordinary_line_with_a_colon_is_no_exception() -> None:
    assert cause_in(TRACEBACK + "Progress: 50%\nSpeed: low\n") == "ValueError: bad value: 3"


def test_a_traceback_inside_a_log_record_is_found() -> None:
    assert cause_in("[12:00][123] " + TRACEBACK.split("\n", 1)[1] + "done\n") == "ValueError: bad value: 3"


def test_a_syntax_error_has_no_traceback_and_is_found() -> None:
    assert (
        cause_in('  File "a.py", line 1\n    x = (\nSyntaxError: never closed\nbye\n')
        == "SyntaxError: never closed"
    )


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [
        (3, "exit code 3"),
        (-9, "killed by SIGKILL, perhaps out of memory"),
        (-11, "SIGSEGV"),
        (137, "SIGKILL"),
    ],
)
def test_how_it_ended_is_said_too(tmp_path: Path, exit_code: int, words: str) -> None:
    assert words in root_error(tmp_path / "no.log", exit_code)


def test_only_the_last_attempt_counts(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"=== attempt 1 on h, t ===\n{TRACEBACK}=== attempt 2 on h, t ===\nquiet\n")
    assert root_error(log, 1) == "quiet (exit code 1)"


def test_a_huge_log_is_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("x" * 1_000_000 + "\n" + TRACEBACK)
    assert root_error(log, 1) == "ValueError: bad value: 3 (exit code 1)"


def test_a_very_long_line_is_cut() -> None:
    assert len(cause_in("e" * 5000)) == 300

import logging
import os
import re
import subprocess
import sys

import pytest

from sample_factory.monitoring import log

pytestmark = pytest.mark.usefixtures("logging_closed_afterwards")


def log_text(directory):
    return (directory / "sf_log.txt").read_text()


def test_the_file_has_time_pid_and_message(tmp_path):
    log.init_logging(tmp_path, log_to_file=True)
    log.logger().info("hello %d", 7)
    pattern = rf"\[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d,\d{{3}}\]\[{os.getpid():05d}\] hello 7\n"
    assert re.fullmatch(pattern, log_text(tmp_path))


def test_the_file_has_no_colours_even_when_the_screen_has(tmp_path):
    log.init_logging(tmp_path, log_to_file=True)
    log.logger().error("bad")
    assert "\x1b" not in log_text(tmp_path)


def test_a_resumed_session_appends(tmp_path):
    for message in ("first session", "second session"):
        log.init_logging(tmp_path, log_to_file=True)
        log.logger().info(message)
        log.close_logging()
    assert [line.split("] ")[-1] for line in log_text(tmp_path).splitlines()] == [
        "first session",
        "second session",
    ]


def test_logging_twice_initialised_writes_each_line_once(tmp_path, capsys):
    log.init_logging(tmp_path, log_to_file=True)
    log.init_logging(tmp_path, log_to_file=True)
    log.logger().info("once")
    assert log_text(tmp_path).count("once") == 1
    assert capsys.readouterr().err.count("once") == 1


def test_no_file_is_made_when_not_wanted(tmp_path):
    log.init_logging(tmp_path, log_to_file=False)
    log.logger().info("only on screen")
    assert list(tmp_path.iterdir()) == []


def test_stderr_is_plain_when_it_is_no_terminal(capsys):
    log.init_logging(None, log_to_file=False)
    log.logger().warning("careful")
    assert re.fullmatch(r"\[.*\]\[\d+\] careful\n", capsys.readouterr().err)


def test_debug_lines_are_for_the_file_only(tmp_path, capsys):
    log.init_logging(tmp_path, log_to_file=True)
    log.logger().debug("detail")
    assert "detail" in log_text(tmp_path)
    assert capsys.readouterr().err == ""


def test_a_worker_without_console_logs_to_the_file_only(tmp_path, capsys):
    log.init_worker_logging(tmp_path, log_to_file=True, console=False)
    log.logger().warning("from a worker")
    assert "from a worker" in log_text(tmp_path)
    assert capsys.readouterr().err == ""


def test_secrets_are_replaced_by_the_name_of_their_variable(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    monkeypatch.setenv("hub_token", "0123456789abcdef-and-more")
    log.init_logging(tmp_path, log_to_file=True)
    log.logger().info("keys 0123456789abcdef-and-more 0123456789abcdef")
    try:
        raise ValueError("rejected key 0123456789abcdef")
    except ValueError:
        log.logger().exception("login failed")
    for text in (log_text(tmp_path), capsys.readouterr().err):
        assert "keys <hub_token> <WANDB_API_KEY>" in text
        assert "rejected key <WANDB_API_KEY>" in text
        assert "0123456789abcdef" not in text


def test_a_short_token_value_does_not_eat_ordinary_words(monkeypatch):
    monkeypatch.setenv("USE_TOKEN", "true")
    assert log.redact("true story") == "true story"


def test_many_processes_append_whole_lines(tmp_path):
    code = (
        "import sys; from pathlib import Path; from sample_factory.monitoring import log\n"
        "log.init_worker_logging(Path(sys.argv[1]), True, console=False)\n"
        "for i in range(200): log.logger().info('x' * 300 + sys.argv[2])\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "ab"]
    assert [child.wait(timeout=60) for child in children] == [0, 0]
    lines = log_text(tmp_path).splitlines()
    assert len(lines) == 400
    assert all(re.fullmatch(r"\[[^\]]*\]\[\d+\] x{300}[ab]", line) for line in lines)


def test_a_full_disk_is_reported_once_and_never_raised(tmp_path, capsys):
    handler = log.AppendHandler(tmp_path / "sf_log.txt")
    os.close(handler._descriptor)
    handler._descriptor = os.open("/dev/full", os.O_WRONLY)
    record = logging.LogRecord(log.LOGGER_NAME, logging.INFO, __file__, 1, "message", None, None)
    handler.emit(record)
    handler.emit(record)
    handler.close()
    assert capsys.readouterr().err.count("No space left") == 1


def test_an_unwritable_directory_leaves_the_screen(tmp_path, capsys):
    (tmp_path / "file").touch()
    log.init_logging(tmp_path / "file" / "experiment", log_to_file=True)
    log.logger().info("still here")
    assert "still here" in capsys.readouterr().err


def test_importing_the_log_module_has_no_effect():
    code = (
        "import logging, sample_factory.monitoring.log; print(logging.getLogger('sample_factory').handlers)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

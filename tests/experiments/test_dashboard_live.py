"""The dashboard beside a session that trains: what a person sees who watches it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.experiments.browsing import browser, missing
from tests.experiments.serving import dashboard
from tests.experiments.test_dashboard_browser import Page
from tests.session.running import FEED_FORWARD, Program, command_line

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser"),
]

EXPERIMENT = "running_now"
# Points of the first curve on the page: a path has one letter before each.
POINTS = "document.querySelector('.chart .curve').getAttribute('d').split(/[A-Za-z]/).length"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Program]:
    flags = ("--train_for_env_steps=1000000000", "--experiment_summaries_interval=1", "--stats_avg=10")
    arguments = command_line(
        tmp_path / "train_dir", "gym_CartPole-v1", *FEED_FORWARD, *flags, experiment=EXPERIMENT
    )
    program = Program(arguments, tmp_path)
    metrics = tmp_path / "train_dir" / EXPERIMENT / "metrics.jsonl"
    program.wait_until(metrics.exists, "first values", seconds=90.0)
    yield program
    program.end()


@pytest.fixture
def page(session: Program, tmp_path: Path) -> Iterator[Page]:
    root = tmp_path / "train_dir"
    with dashboard(root) as client, browser(tmp_path / "profile") as driver:
        yield Page(driver, f"http://127.0.0.1:{client.port}", root)


def test_a_session_is_watched_while_it_trains_and_when_it_ends(page: Page, session: Program) -> None:
    page.open("/")
    row = f"document.querySelector('tr[data-name=\"{EXPERIMENT}\"]')"
    page.wait(f"{row}.dataset.state === 'RUNNING'")
    page.wait(f"/[0-9]/.test({row}.querySelector('[data-live=\"fps\"]').textContent)")

    page.open(f"/experiment/{EXPERIMENT}")
    assert page.run("document.querySelector('[data-live=\"status\"]').textContent") == "running"
    page.run("window.same = true")
    page.wait("/[0-9]/.test(document.querySelector('#facts [data-live=\"fps\"]').textContent)")
    page.wait("document.querySelector('.chart .curve') !== null")
    frames = page.run("document.querySelector('#facts [data-live=\"frames\"]').textContent")
    before = page.run(POINTS)
    page.wait(f"{POINTS} > {before}")
    page.wait(f"document.querySelector('#facts [data-live=\"frames\"]').textContent !== '{frames}'")
    # Every verdict names a flag to turn.
    page.wait("document.querySelector('[data-live=\"verdict\"]').textContent.includes('--')")
    page.wait("document.querySelectorAll('#shares .share').length === 5")
    page.wait("[...document.querySelectorAll('.chart h3')].some(h => h.textContent.includes('per second'))")
    assert page.run("window.same") is True

    session.signal_group(signal.SIGINT)
    assert session.wait() == 2
    page.wait("document.querySelector('[data-live=\"status\"]').textContent === 'interrupted'")
    assert [entry for entry in page.driver.get_log("browser") if entry["level"] == "SEVERE"] == []

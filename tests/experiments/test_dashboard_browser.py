"""The dashboard in a real browser: what a person sees, and that its scripts do what they are for."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sample_factory.benchmark.run_record import RunStatus
from tests.experiments.browsing import browser, missing
from tests.experiments.experiment_folders import write_experiment, write_metrics, write_population
from tests.experiments.serving import dashboard

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser"),
]

WAIT_SEC = 30.0


class Page:
    """The dashboard as a person uses it."""

    def __init__(self, driver: Any, url: str, train_dir: Path) -> None:
        self.driver = driver
        self.url = url
        self.train_dir = train_dir

    def open(self, path: str) -> None:
        self.driver.get(self.url + path)
        self.wait("document.getElementById('pulse').textContent === 'live'")

    def run(self, expression: str) -> Any:
        return self.driver.execute_script(f"return {expression}")

    def wait(self, expression: str) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, WAIT_SEC, 0.05).until(lambda _: self.run(expression), expression)

    def click(self, selector: str) -> None:
        self.driver.find_element("css selector", selector).click()

    def visible_rows(self) -> list[str]:
        rows = "[...document.querySelectorAll('#experiments tbody tr')]"
        return list(self.run(f"{rows}.filter(row => !row.hidden).map(row => row.dataset.name)"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    root = tmp_path_factory.mktemp("train_dir")
    film = write_experiment(root / "film", env="doom_basic", scores=[1.0, 5.0, 9.0])
    write_video(film / "replay.mp4")
    write_experiment(root / "long", scores=[float(n) for n in range(40)])
    write_experiment(root / "broken", status=RunStatus.FAILED, trace=["ValueError: no such map"])
    write_population(root / "pbt")
    with dashboard(root) as client, browser(tmp_path_factory.mktemp("profile")) as driver:
        yield Page(driver, f"http://127.0.0.1:{client.port}", root)


def write_video(path: Path) -> None:
    imageio = pytest.importorskip("imageio.v2")
    pytest.importorskip("imageio_ffmpeg")
    frames = np.zeros((12, 64, 64, 3), np.uint8)
    frames[:, :, :, 1] = np.arange(12)[:, None, None] * 20
    imageio.mimwrite(path, list(frames), fps=12, macro_block_size=16)


def test_the_list_is_filtered_and_sorted(page: Page) -> None:
    page.open("/")
    page.driver.find_element("id", "filter").send_keys("doom")
    assert page.visible_rows() == ["film"]
    page.driver.find_element("id", "filter").clear()
    page.driver.find_element("id", "filter").send_keys(" ")
    page.click("button[data-state='FAILED']")
    assert page.visible_rows() == ["broken"]
    page.click("button[data-state='']")
    page.click("th[data-sort='score']")
    assert page.visible_rows() == ["long", "film", "pbt", "broken"]


def test_every_row_gets_its_curve(page: Page) -> None:
    page.open("/")
    page.wait("document.querySelectorAll('td.spark path').length === 4")


def test_ticked_experiments_are_compared_in_one_chart(page: Page) -> None:
    page.open("/")
    for name in ("film", "long"):
        page.click(f"input[value='{name}']")
    page.click("#compare")
    page.wait("document.querySelectorAll('.chart:first-child .curve').length === 2")
    names = page.run(
        "[...document.querySelectorAll('.chart:first-child .legend span')].map(s => s.textContent)"
    )
    assert sorted(names) == ["film", "long"]


def test_new_values_appear_without_a_reload(page: Page) -> None:
    page.open("/experiment/long")
    page.wait("document.querySelector('.chart .curve') !== null")
    before = page.run("document.querySelector('.chart .curve').getAttribute('d')")
    page.run("window.same = true")
    write_metrics(page.train_dir / "long", 50_000, 0, {"0_aux/avg_reward": 123.0})
    page.wait("document.querySelector('[data-live=\"score\"]').textContent === '123.00'")
    page.wait(f"document.querySelector('.chart .curve').getAttribute('d') !== '{before}'")
    assert page.run("window.same") is True


def test_the_axis_may_be_time(page: Page) -> None:
    page.open("/experiment/long")
    page.wait("document.querySelector('.chart svg') !== null")
    page.click("[data-axis='seconds']")
    assert "10m 00s" in page.run("document.querySelector('.chart svg').textContent")


def test_a_video_can_be_played(page: Page) -> None:
    page.open("/experiment/film")
    page.wait("document.querySelector('video').readyState >= 1")
    assert page.run("document.querySelector('video').duration") == pytest.approx(1.0, abs=0.2)
    assert page.run("document.querySelector('video').videoWidth") == 64


def test_a_population_shows_copies_mutations_and_what_was_tuned(page: Page) -> None:
    page.open("/experiment/pbt")
    page.wait("document.querySelectorAll('#lineage > svg .replaced path').length === 1")
    assert page.run("document.querySelectorAll('#lineage > svg .mutated path').length") == 1
    titles = page.run("[...document.querySelectorAll('#lineage .chart h3')].map(h => h.textContent)")
    assert titles == ["learning_rate"]


def test_a_failure_is_explained_at_once(page: Page) -> None:
    page.open("/experiment/broken")
    assert page.driver.find_element("css selector", "#problem .error").text == "ValueError: no such map"


def test_the_theme_button_changes_the_colours_and_is_remembered(page: Page) -> None:
    page.open("/")
    background = "getComputedStyle(document.body).backgroundColor"
    page.click("#theme")
    light = page.run(background)
    page.click("#theme")
    dark = page.run(background)
    assert (light, dark) == ("rgb(245, 246, 248)", "rgb(14, 17, 22)")
    page.open("/")
    assert page.run(background) == dark
    page.click("#theme")


def test_the_screenshot_is_a_page_and_nothing_complains(page: Page) -> None:
    from PIL import Image

    page.open("/experiment/pbt")
    page.wait("document.querySelector('.chart .curve') !== null")
    picture = np.asarray(Image.open(io.BytesIO(page.driver.get_screenshot_as_png())).convert("RGB"))
    assert picture.shape[1] == 1400
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50
    # Violations of the content security policy and errors of the scripts end up here.
    assert [entry for entry in page.driver.get_log("browser") if entry["level"] == "SEVERE"] == []

"""A real browser without a screen: Debian's chromium, driven through its own driver."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",  # containers have little of it
    "--hide-scrollbars",
    "--window-size=1400,1000",
)


def missing() -> str:
    """Why there can be no browser; empty if there can."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        return "needs the Debian packages chromium and chromium-driver"
    return "" if importlib.util.find_spec("selenium") else "needs the package selenium"


@contextmanager
def browser(profile: Path) -> Iterator[Any]:
    """A browser with an empty profile."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # Named, so that selenium does not go looking for a driver on the web.
    driver = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
    driver.set_page_load_timeout(60)
    try:
        yield driver
    finally:
        driver.quit()

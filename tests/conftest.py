"""Makes `sample_factory`, `sample_factory_examples` and `tests` importable however pytest is started."""

import signal
import sys
from pathlib import Path

import pytest

ROOT = str(Path(__file__).resolve().parent.parent)

if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

# Shells turn Ctrl+C off for what they start in the background, and nohup the hangup; programs that tests
# start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, so that no process is left with one of them at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)

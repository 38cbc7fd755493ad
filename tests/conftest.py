"""Makes `sample_factory`, `sample_factory_examples` and `tests` importable however pytest is started.

Where tests run in several processes at once, those of one directory stay in one of them: they share services
and look at what they leave behind.
"""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
ROOT = str(TESTS.parent)

if ROOT not in sys.path:
    sys.path.insert(0, ROOT)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.xdist_group(str(item.path.parent.relative_to(TESTS))))

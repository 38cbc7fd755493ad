"""Makes `sample_factory`, `sample_factory_examples` and `tests` importable however pytest is started."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parent.parent)

if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

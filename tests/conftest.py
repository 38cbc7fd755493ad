"""Makes `sample_factory`, `sample_factory_examples` and `tests` importable however pytest is started."""

import signal
import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parent.parent)

if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

# Shells turn Ctrl+C off for what they start in the background; programs that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

"""The `sf` command: one word per entry point, the same flags as `python -m`.

Each verb is imported when it is used, so `sf --help` and the verbs that need no torch start at once.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from difflib import get_close_matches

VERBS = {
    "train": ("sample_factory.run_algorithm", "train, or sample at full speed (--algo=DUMMY_SAMPLER)"),
    "enjoy": ("sample_factory.algorithms.appo.enjoy_appo", "watch, score or record a trained policy"),
    "match": (
        "sample_factory.algorithms.appo.scripts.multi_agent_match",
        "let the policies of two experiments play against each other",
    ),
    "evaluate": ("sample_factory.evaluate", "score a trained policy over many episodes, in parallel"),
    "export": ("sample_factory.evaluation.export", "write a trained policy as ONNX or TorchScript"),
    "publish": ("sample_factory.evaluation.publish", "put a trained policy into trained_policies/"),
    "run": ("sample_factory.runner.run", "launch many experiments"),
    "ls": ("sample_factory.experiments.ls", "list experiments with their scores"),
    "status": ("sample_factory.experiments.status", "what is running, how fast, and the last errors"),
    "plot": ("sample_factory.experiments.plot", "learning curves, or the lineage of a population, as files"),
    "dashboard": ("sample_factory.experiments.dashboard.serve", "a page that shows all experiments, live"),
    "tb": ("sample_factory.tb", "open TensorBoard on the experiments that match a mask"),
    "tune": ("sample_factory.tune.__main__", "search settings with several seeds, and confirm the best"),
    "bench": ("sample_factory.bench.__main__", "measure the system itself: how fast it is, what it survives"),
    "benchmark": ("sample_factory.benchmark.__main__", "compare algorithms with sound statistics"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb; returns its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_usage())
        return 0
    verb, *rest = arguments
    if verb not in VERBS:
        close = get_close_matches(verb, VERBS, n=1)
        hint = f"; did you mean `sf {close[0]}`?" if close else f"; the verbs are {', '.join(VERBS)}."
        sys.stderr.write(f"error: `sf {verb}` does not exist{hint}\n")
        return 2
    module_name = VERBS[verb][0]
    sys.argv = [f"sf {verb}", *rest]
    return int(importlib.import_module(module_name).main(rest) or 0)


def _usage() -> str:
    lines = [f"  sf {verb:<10} {text}" for verb, (module, text) in VERBS.items() if _exists(module)]
    verbs = "\n".join(lines)
    return f"usage: sf VERB [--flag=value ...]\n\n{verbs}\n\nsf VERB --help shows the flags.\n"


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


if __name__ == "__main__":
    sys.exit(main())

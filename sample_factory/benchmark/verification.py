"""Checks a published report: are its numbers those of the raw scores it carries, and of the runs on disk?

`benchmark verify` uses it. A report (HTML or JSON) embeds its raw scores, its references and the settings of
its bootstrap, so everything in it can be computed again.

Invariant: checking needs nothing but the file; runs on disk are a second opinion.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sample_factory.benchmark.errors import BenchmarkError
from sample_factory.benchmark.run_record import strict_json
from sample_factory.benchmark.runs import FoundRuns, Run
from sample_factory.benchmark.statistics.bootstrap import Bootstrap
from sample_factory.benchmark.summary import SummaryOptions, summarize
from sample_factory.benchmark.summary_formats import JSON_FORMAT, json_content

_EMBEDDED = re.compile(r'<script type="application/json" id="summary">(.*?)</script>', re.DOTALL)
_COMPUTED = ("cells", "aggregates")
_MEASURED = ("fps", "train_seconds")  # facts about runs, not computed from scores
_TOLERANCE = 1e-9

Content = dict[str, Any]


def read_report(path: Path) -> Content:
    """What a report embeds.

    Raises:
        BenchmarkError: the file is no report of ours.
    """
    try:
        text = path.read_text(encoding="utf-8")
        match = _EMBEDDED.search(text)
        content = json.loads(match.group(1) if match else text)
        if content["format"] != JSON_FORMAT:
            raise ValueError(f"its format is {content['format']}")
    except OSError as error:
        raise BenchmarkError(f"{path} can't be read ({error.strerror}).") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BenchmarkError(
            f"{path} holds no raw scores; verify what `benchmark report` or `summary --format=json` wrote."
        ) from error
    return dict(content)


def recomputed(content: Content) -> Content:
    """The numbers that follow from the raw scores of a report."""
    runs = [
        Run(Path(f"{cell['algo']}/{cell['env']}/{index}"), cell["algo"], cell["env"], seed, score=score)
        for cell in content["cells"]
        for index, (seed, score) in enumerate(zip(cell["seeds"], cell["scores"], strict=True))
    ]
    normalization = content["normalization"]
    baselines = {
        env: {"random": ends["low"], "expert": ends["high"]}
        for env, ends in normalization["references"].items()
    }
    options = SummaryOptions(
        normalize="none" if normalization["kind"] == "none" else "table",
        baselines=baselines,
        bootstrap=Bootstrap(**content["bootstrap"]),
    )
    return dict(strict_json(json_content(summarize(FoundRuns([], runs), options))))


def differences(content: Content) -> list[str]:
    """Numbers of a report that do not follow from its raw scores."""
    again = recomputed(content)
    found: list[str] = []
    for key in _COMPUTED:
        found += _compare(content[key], again[key], key)
    return found


def differences_on_disk(content: Content, found: FoundRuns) -> list[str]:
    """Raw scores of a report that the runs on disk do not have."""
    on_disk = {(run.algo, run.env, run.seed): run.score for run in found.scored}
    problems = []
    for cell in content["cells"]:
        for seed, score in zip(cell["seeds"], cell["scores"], strict=True):
            name = f"{cell['algo']} on {cell['env']}, seed {seed}"
            actual = on_disk.get((cell["algo"], cell["env"], seed))
            if actual is None:
                problems.append(f"{name}: no such run on disk")
            elif not _same(score, actual):
                problems.append(f"{name}: the report says {score}, the run {actual}")
    return problems


def num_scores(content: Content) -> int:
    """How many raw scores a report carries."""
    return sum(len(cell["scores"]) for cell in content["cells"])


def _compare(stated: Any, actual: Any, place: str) -> Iterator[str]:
    if isinstance(stated, Mapping) and isinstance(actual, Mapping):
        for key in stated.keys() | actual.keys():
            if key not in _MEASURED:
                yield from _compare(stated.get(key), actual.get(key), f"{place}.{key}")
    elif isinstance(stated, list) and isinstance(actual, list) and len(stated) == len(actual):
        for index, (first, second) in enumerate(zip(stated, actual, strict=True)):
            label = first.get("metric", index) if isinstance(first, Mapping) else index
            if isinstance(first, Mapping) and "algo" in first:
                label = f"{first['algo']} on {first['env']}"
            yield from _compare(first, second, f"{place}[{label}]")
    elif not _same(stated, actual):
        yield f"{place}: the report says {stated}, the raw scores {actual}"


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, float | int) and isinstance(second, float | int):
        return math.isclose(first, second, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return bool(first == second)

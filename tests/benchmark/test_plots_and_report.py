"""Figures and the HTML page: all there, self-contained, and matplotlib only when drawing."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sample_factory.benchmark import plots
from sample_factory.benchmark.commands import main
from sample_factory.benchmark.errors import BenchmarkError, ExitCode
from sample_factory.benchmark.references import BASELINES_FILE
from sample_factory.benchmark.runs import find_runs
from sample_factory.benchmark.summary import SummaryOptions, summarize
from sample_factory.monitoring.metrics import METRICS_FILE_NAME, append_metrics
from tests.benchmark.run_folders import write_curve, write_grid, write_run

pytest.importorskip("matplotlib")

ENDS = {"random": 0.0, "expert": 10.0}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two algorithms on two environments, with learning curves and a table for normalisation."""
    root = tmp_path_factory.mktemp("suite")
    scores = {
        ("A", "x"): [1.0, 2.0, 3.0],
        ("A", "y"): [4.0, 5.0],
        ("B", "x"): [2.0, 3.0, 4.0],
        ("B", "y"): [6.0, 7.0],
    }
    write_grid(root, scores)
    for number, directory in enumerate(sorted(path.parent for path in root.rglob("run.json"))):
        write_curve(directory, [(step * 1000, step * 60.0, number + step) for step in range(5)])
    (root / BASELINES_FILE).write_text(json.dumps({"x": ENDS, "y": ENDS}))
    return root


@pytest.fixture(scope="module")
def page(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert (
        main(["report", str(runs), f"--output={path}", "--title=Ours & theirs", "--reps=50"]) == ExitCode.OK
    )
    return path.read_text()


@pytest.mark.parametrize("kind", sorted(plots.KINDS))
def test_every_kind_of_figure_is_drawn(kind: str, runs: Path, tmp_path: Path) -> None:
    arguments = ["plot", str(runs), "--kind", kind, "--formats", "png", "--reps=50", f"--output={tmp_path}"]
    assert main(arguments) == ExitCode.OK
    assert (tmp_path / f"{kind}.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_has_a_figure_of_every_kind(page: str) -> None:
    assert re.findall(r'<figure id="(\w+)"', page) == [
        "aggregate",
        "poi",
        "profile",
        "curves",
        "efficiency",
        "throughput",
    ]


def test_the_page_loads_nothing_from_elsewhere(page: str) -> None:
    loads = re.findall(r"""(?:src|href)\s*=\s*["'](?!#)([^"']+)|@import|url\((?!#)""", page)
    assert loads == []


def test_ids_of_the_figures_do_not_meet(page: str) -> None:
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_every_reference_inside_the_page_leads_somewhere(page: str) -> None:
    wanted = set(re.findall(r'(?:xlink:href|href)="#([^"]+)"|url\(#([^)]+)\)', page))
    ids = set(re.findall(r'\bid="([^"]+)"', page))
    assert {name for pair in wanted for name in pair if name} <= ids


def test_the_page_is_balanced_html(page: str) -> None:
    class Checker(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "br", "img"):
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    checker = Checker()
    checker.feed(page)
    assert checker.open == []


def test_the_page_carries_the_raw_scores(page: str) -> None:
    match = re.search(r'<script type="application/json" id="summary">(.*?)</script>', page, re.S)
    assert match is not None
    cells = {(cell["algo"], cell["env"]): cell["scores"] for cell in json.loads(match[1])["cells"]}
    assert cells["A", "x"] == [1.0, 2.0, 3.0]


def test_the_title_is_text(page: str) -> None:
    assert "<h1>Ours &amp; theirs</h1>" in page


def test_the_same_runs_give_the_same_figure(runs: Path) -> None:
    summary = summarize(find_runs([runs]), SummaryOptions(normalize="minmax"))
    first, second = (plots.to_svg(plots.draw("profile", summary)) for _ in range(2))
    assert first == second


def test_what_cannot_be_drawn_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_grid(tmp_path / "runs", {("A", "x"): [1.0, 2.0]})
    arguments = ["plot", str(root), "--kind", "curves", "poi", f"--output={tmp_path}"]
    assert main(arguments) == ExitCode.NOTHING_FOUND
    errors = capsys.readouterr().err
    assert "no curves: no run has a metrics.jsonl" in errors
    assert "no poi: the probability of improvement needs two algorithms" in errors


def test_without_matplotlib_the_extra_is_named(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots.style.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BenchmarkError, match=r"sample-factory-rebuilt\[plot\]"):
        plots.draw("curves", summarize(find_runs([runs])))


def test_a_page_without_figures_needs_no_matplotlib(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots.style.importlib.util, "find_spec", lambda name: None)
    assert main(["report", str(runs), "--no_figures", f"--output={tmp_path / 'r.html'}"]) == ExitCode.OK


def test_a_figure_that_cannot_be_drawn_does_not_cost_the_page(tmp_path: Path) -> None:
    for seed, first in ((0, 10), (1, 500)):
        directory = write_run(tmp_path / f"run{seed}", seed=seed)
        for steps in (1, 2):
            line = {"time": 0.0 if steps == 1 else 1.0, "env_steps": first * steps, "policy": 0}
            append_metrics(directory / METRICS_FILE_NAME, {**line, "0_aux/avg_reward": 1.0})
    assert main(["report", str(tmp_path), f"--output={tmp_path}/page.html"]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "Not drawn: APPO on doom_basic: the runs have no common range of env_steps" in page
    assert 'id="efficiency"' in page

"""The report: one HTML file with all tables, figures and raw scores; it opens anywhere, without a network.

`report` writes it, and `summary --format=html` the same without figures.

Invariant: the file refers to nothing outside itself, and text from runs never becomes markup.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

from sample_factory.benchmark import plots, summary_tables
from sample_factory.benchmark.plots import CurveOptions, NothingToDrawError
from sample_factory.benchmark.run_record import strict_json
from sample_factory.benchmark.summary import Summary
from sample_factory.benchmark.summary_formats import facts, json_content, normalization_note, provenance
from sample_factory.benchmark.tables import Table, to_html

_FIGURES = (
    ("aggregate", "Over all environments", "Bars are bootstrap intervals; lines are the values."),
    ("poi", "Probability of improvement", "Right of the dashed line the first algorithm is the better one."),
    ("profile", "Performance profile", "Higher is better: more runs reach the score."),
    ("curves", "Learning curves", "Mean over seeds with its interval, where all seeds have values."),
    ("efficiency", "Learning over time", "The same over the time it took."),
    ("throughput", "Speed", "Frames per second as the runs recorded them."),
)

# Figures whose absence needs a reason; the others belong to certain kinds of runs only.
_EXPECTED = ("curves", "efficiency")

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 64rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: .3rem; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .4rem; border-bottom: 1px solid #ddd; padding-bottom: .2rem; }
h3 { font-size: 1.02rem; margin: 1.3rem 0 .3rem; }
p, li { max-width: 48rem; }
.facts, .caption { color: #555; font-size: .88rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0 1rem; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .8rem .25rem 0; text-align: left; border-bottom: 1px solid #e5e5e5; }
th { border-bottom: 2px solid #999; cursor: pointer; white-space: nowrap; }
th.number, td.number { text-align: right; }
td { white-space: nowrap; }
td.best { font-weight: 700; }
svg { max-width: 100%; height: auto; }
details { margin: 1rem 0; } pre { overflow-x: auto; font-size: .8rem; }
"""

_SORT = """
document.querySelectorAll('th').forEach(th => th.addEventListener('click', () => {
  const table = th.closest('table'), body = table.tBodies[0], column = th.cellIndex;
  const down = th.dataset.order !== 'down';
  th.dataset.order = down ? 'down' : 'up';
  const value = row => { const text = row.cells[column].textContent, n = parseFloat(text);
    return isNaN(n) ? text : n; };
  [...body.rows].sort((a, b) => {
    const x = value(a), y = value(b);
    const order = typeof x === 'number' && typeof y === 'number' ? y - x : String(x).localeCompare(String(y));
    return down ? order : -order;
  }).forEach(row => body.append(row));
}));
"""


def render(summary: Summary, *, title: str, figures: bool, options: CurveOptions | None = None) -> str:
    """The whole page.

    Args:
        summary: of the runs.
        title: of the page.
        figures: False leaves them out, and then matplotlib is not needed.
        options: of the curves.

    Raises:
        BenchmarkError: figures are asked for and matplotlib is missing.
    """
    parts = [f"<h1>{html.escape(title)}</h1>", _list(facts(summary), "facts")]
    if summary.notes:
        parts.append(_list(summary.notes, "notes"))
    parts += _headline(summary)
    if figures:
        parts += _figures(summary, options or CurveOptions())
    parts += _details(summary)
    parts += _status(summary)
    parts += ["<h2>How to reproduce</h2>", _list(provenance(summary), "facts"), _raw(summary)]
    return page(title, parts)


def page(title: str, parts: Sequence[str]) -> str:
    """A self-contained page with our look; the parts are markup already."""
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n<script>{_SORT}</script>\n</body>\n</html>\n"
    )


def figure(kind: str, title: str, caption: str, svg: str) -> str:
    """A figure with its heading; ids are made unique, because one page holds several SVGs."""
    svg = svg.replace('id="', f'id="{kind}-').replace('"#', f'"#{kind}-').replace("url(#", f"url(#{kind}-")
    return f'<h2>{title}</h2>\n<p class="caption">{caption}</p>\n<figure id="{kind}">{svg}</figure>'


def _headline(summary: Summary) -> list[str]:
    parts = ["<h2>Scores</h2>"]
    if summary.references.is_normalized:
        parts.append(f'<p class="caption">{html.escape(normalization_note(summary))}</p>')
    if len(summary.algos) > 1:
        caption = "Mean ± population standard deviation over runs; the best mean of each environment is bold."
        parts += [to_html(summary_tables.comparison_table(summary)), f'<p class="caption">{caption}</p>']
        if summary.aggregates[summary.algos[0]]:
            parts.append(to_html(summary_tables.aggregate_comparison_table(summary)))
    return parts


def _figures(summary: Summary, options: CurveOptions) -> list[str]:
    parts = []
    for kind, title, caption in _FIGURES:
        try:
            svg = plots.to_svg(plots.draw(kind, summary, options))
        except NothingToDrawError as reason:
            if kind in _EXPECTED:
                text = html.escape(str(reason))
                parts.append(f'<h2>{title}</h2>\n<p class="caption">Not drawn: {text}</p>')
            continue
        parts.append(figure(kind, title, caption, svg))
    return parts


def _details(summary: Summary) -> list[str]:
    parts = ["<h2>Details</h2>"]
    for algo in summary.algos:
        parts += [f"<h3>{html.escape(algo)}</h3>", to_html(summary_tables.environment_table(summary, algo))]
        if summary.aggregates[algo]:
            parts.append(to_html(summary_tables.aggregate_table(summary, algo)))
    return parts


def _status(summary: Summary) -> list[str]:
    if not summary.unfinished and not summary.found.warnings:
        return []
    parts = ["<h2>Run status</h2>", to_html(summary_tables.status_table(summary))]
    if summary.unfinished:
        parts.append(to_html(summary_tables.problem_table(summary.unfinished)))
    if summary.found.warnings:
        parts.append(_list(summary.found.warnings, "facts"))
    return parts


def _raw(summary: Summary) -> str:
    content = json.dumps(strict_json(json_content(summary)), indent=1)
    # "</script>" or "<!--" inside of a string would end or confuse the element.
    data = content.replace("<", "\\u003c")
    table = to_html(_raw_table(summary))
    return (
        f"<details><summary>Raw scores</summary>{table}</details>\n"
        f'<script type="application/json" id="summary">{data}</script>'
    )


def _raw_table(summary: Summary) -> Table:
    runs = [run for cell in summary.cells for run in cell.runs]
    return summary_tables.run_table(runs, ("algo", "env", "seed", "score", "env_steps", "train_seconds"))


def _list(lines: Sequence[str], kind: str) -> str:
    items = "".join(f"<li>{_code(html.escape(line))}</li>" for line in lines)
    return f'<ul class="{kind}">{items}</ul>'


def _code(line: str) -> str:
    """Backticks, which the markdown form has too, as code."""
    head, tick, rest = line.partition("`")
    code, end, tail = rest.partition("`")
    return f"{head}<code>{code}</code>{tail}" if tick and end else line

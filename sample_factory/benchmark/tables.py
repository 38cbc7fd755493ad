"""Tables of text, and how markdown, HTML, LaTeX, CSV and plain text write them.

All commands that show tables fill a `Table`. Columns of numbers are aligned to the right.

Invariant: whatever a cell holds, it cannot break the table or, in HTML, become markup.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_LATEX_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    character: "\\" + character for character in "&%$#_{}"
}
_NUMBER = re.compile(r"^[\s(*+-]*[\d.]|^n/a")


@dataclass
class Table:
    """Rows of text below column names; `bold` holds (row, column) of what stands out."""

    columns: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    bold: set[tuple[int, int]] = field(default_factory=set)

    def is_numeric(self, column: int) -> bool:
        """Whether all cells of a column look like numbers."""
        return bool(self.rows) and all(_NUMBER.match(row[column]) for row in self.rows if row[column])


def to_markdown(table: Table) -> str:
    """A pipe table."""
    rules = ["---:" if table.is_numeric(i) else "---" for i in range(len(table.columns))]
    lines = [_pipes(table.columns), _pipes(rules)]
    for i, row in enumerate(table.rows):
        cells = [_escaped_pipe(cell) for cell in row]
        lines.append(
            _pipes([f"**{cell}**" if (i, j) in table.bold else cell for j, cell in enumerate(cells)])
        )
    return "\n".join(lines)


def to_html(table: Table) -> str:
    """A `<table>`; its header cells are what the report's script sorts by."""
    sides = ["number" if table.is_numeric(i) else "text" for i in range(len(table.columns))]
    head = "".join(
        f'<th class="{side}">{html.escape(name)}</th>'
        for name, side in zip(table.columns, sides, strict=True)
    )
    body = []
    for i, row in enumerate(table.rows):
        cells = [
            f'<td class="{sides[j]}{" best" if (i, j) in table.bold else ""}">{html.escape(cell)}</td>'
            for j, cell in enumerate(row)
        ]
        body.append(f"<tr>{''.join(cells)}</tr>")
    rows = "\n".join(body)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>'


def to_latex(table: Table) -> str:
    """A booktabs tabular."""
    sides = "".join("r" if table.is_numeric(i) else "l" for i in range(len(table.columns)))
    lines = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", _ampersands(table.columns), r"\midrule"]
    for i, row in enumerate(table.rows):
        cells = [latex_text(cell) for cell in row]
        lines.append(
            " & ".join(
                rf"\textbf{{{cell}}}" if (i, j) in table.bold else cell for j, cell in enumerate(cells)
            )
            + r" \\"
        )
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def to_csv(table: Table) -> str:
    """Comma-separated, with a header and a final newline."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


def to_text(table: Table) -> str:
    """Columns padded with spaces, for a terminal."""
    grid = [list(table.columns), *table.rows]
    widths = [max(len(row[i]) for row in grid) for i in range(len(table.columns))]
    numeric = [table.is_numeric(i) for i in range(len(table.columns))]
    lines = []
    for row in grid:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def latex_text(text: str) -> str:
    """Text with LaTeX's special characters written out."""
    escaped = "".join(_LATEX_SPECIAL.get(character, character) for character in text)
    return escaped.replace("±", r"$\pm$")


def _pipes(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped_pipe(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


def _ampersands(cells: Sequence[str]) -> str:
    return " & ".join(latex_text(cell) for cell in cells) + r" \\"

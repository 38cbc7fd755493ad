"""What `trained_policies/` holds: the results on file, and the tables of them in README files.

`publish` writes the directories and then calls `write_tables`; tests compare the tables with the results.

Invariant: every number in a table is made from a result file; nothing in it is typed by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sample_factory.benchmark.run_record import read_json_object
from sample_factory.model.durable_files import write_durably

RESULT_FILE = "result.json"
EPISODES_FILE = "episodes.csv"
README = "README.md"
TABLE_START, TABLE_END = "<!-- scores -->", "<!-- end of scores -->"
_NEW_README = f"""# Trained policies

Trained with this code; each directory holds the weights, the settings, the learning curve and the episodes
behind its score. `sf enjoy --model_path=NAME` plays one, `sf evaluate --model_path=NAME` scores it again, and
`sample_factory.load_policy("NAME")` uses it in a program.

{TABLE_START}
{TABLE_END}
"""


def policy_directories(folder: Path) -> list[Path]:
    """The directories of a folder of policies, complete or not."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def read_results(folder: Path) -> list[dict[str, Any]]:
    """What was measured of every policy in a folder, by name."""
    found = (read_json_object(directory / RESULT_FILE) for directory in policy_directories(folder))
    return [result for result in found if result is not None]


def write_tables(folder: Path) -> None:
    """Makes the tables of scores anew: in the folder's README, and in the one above if it has a place for it.

    Other text in these files stays as it is.
    """
    if not (folder / README).exists():
        write_durably(folder / README, _NEW_README.encode())
    for path, text in _tables(folder):
        write_durably(path, text.encode())


def outdated_tables(folder: Path) -> list[Path]:
    """The README files whose table says something else than the results."""
    return [path for path, text in _tables(folder) if path.read_text(encoding="utf-8") != text]


def _tables(folder: Path) -> Iterator[tuple[Path, str]]:
    """The README files with a place for a table, and what they should be."""
    results = read_results(folder)
    short = _table(results, f"{folder.name}/")
    commands = [f"    # {result['name']}\n    {result['command']}" for result in results]
    full = "\n".join([_table(results, ""), "", "Trained with", "", "\n\n".join(commands)])
    for path, table in ((folder / README, full), (folder.parent / README, short)):
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if TABLE_START in text and TABLE_END in text:
            before, _, rest = text.partition(TABLE_START)
            _, _, after = rest.partition(TABLE_END)
            yield path, f"{before}{TABLE_START}\n{table}\n{TABLE_END}{after}"


def _table(results: Sequence[dict[str, Any]], prefix: str) -> str:
    rows = [
        "| policy | environment | score | random policy | frames | episodes | weights |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        name = result["name"]
        rows.append(
            f"| [{name}]({prefix}{name}) | `{result['env']}` "
            f"| {result['score']:.2f} ± {result['score_std']:.2f} "
            f"| {result['random_score']:.2f} ± {result['random_score_std']:.2f} "
            f"| {result['env_steps']:,} | {result['episodes']} | {result['weights']} |"
        )
    return "\n".join(rows)

"""What the README and the guides tell people to type can be typed."""

import re
import shlex
from pathlib import Path

import pytest

from sample_factory.config.parsing import parse_args
from sample_factory.config.validation import validate

ROOT = Path(__file__).resolve().parents[2]
TRAINING = ("sample_factory.algorithms.appo.train_appo", "sample_factory.run_algorithm")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]


def training_commands():
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL):
            for line in block.splitlines():
                words = shlex.split(line, comments=True)
                if words[:2] == ["python", "-m"] and words[2] in TRAINING:
                    yield pytest.param(words[3:], id=f"{page.name}: {' '.join(words[3:6])}")


@pytest.mark.parametrize("argv", training_commands())
def test_training_commands_parse_and_are_valid(argv):
    assert validate(parse_args(argv)) == []


def links_of(page: Path):
    return [link for link in re.findall(r"\]\(([^)#\s]+)\)", page.read_text()) if "://" not in link]


def test_links_between_pages_lead_somewhere():
    pages = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md", *(ROOT / "docs").glob("*.md")]
    broken = [
        f"{page.name}: {link}"
        for page in pages
        for link in links_of(page)
        if not (page.parent / link).exists()
    ]
    assert not broken

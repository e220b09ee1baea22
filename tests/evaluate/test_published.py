"""docs/analyses.md says what the JSON files beside its pictures say, to the last digit printed."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
RECORDS = sorted((DOCS / "figures" / "analyses").glob("*/*.json"))
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
FIRST = ("system", "policy", "path", "d", "source")  # columns that hold names


def numbers(record: Any) -> Iterator[float]:
    if isinstance(record, dict):
        yield from itertools.chain.from_iterable(map(numbers, record.values()))
    elif isinstance(record, list):
        yield from itertools.chain.from_iterable(map(numbers, record))
    elif isinstance(record, int | float) and not isinstance(record, bool):
        yield record


def cells(markdown: str) -> Iterator[str]:
    headings: list[str] = []
    for line in markdown.splitlines():
        if not line.startswith("|"):
            headings = []
            continue
        row = [cell.strip() for cell in line.strip("|").split("|")]
        if not headings:
            headings = row
        elif not line.startswith("|---"):
            yield from (cell for name, cell in zip(headings, row, strict=True) if name not in FIRST and cell)


def forms(values: list[float]) -> set[str]:
    """Every way in which the tables print a number, differences to the others among them."""
    found = set()
    differences = {a - b for a, b in itertools.permutations(values, 2)} if len(values) < 200 else set()
    for value in values:
        found |= {f"{scale * value:.{digits}f}" for scale in (1, 100, 1000) for digits in range(4)}
    return found | {f"{value:+.2f}" for value in {*values, *differences}}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_text_says_what_was_measured(path: Path) -> None:
    markdown = path.with_suffix(".md").read_text("utf-8")
    assert markdown in (DOCS / "analyses.md").read_text("utf-8")
    known = forms(list(numbers(json.loads(path.read_text("utf-8")))))
    missing = [
        number.group()
        for cell in cells(markdown)
        for number in NUMBER.finditer(cell.replace(" ± ", " "))
        if number.group() not in known
    ]
    assert not missing


def test_something_is_published() -> None:
    assert RECORDS
    assert all(path.with_suffix(ending).is_file() for path in RECORDS for ending in (".md", ".svg", ".png"))

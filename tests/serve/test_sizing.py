"""The table by which operators size their machines is the one that was measured."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_published_table_is_the_measured_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    live = importlib.import_module("live")
    found = [
        json.loads(path.read_text("utf-8")) for path in sorted((ROOT / "benchmarks" / "results").glob("live-*.json"))
    ]
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    assert live.with_table(page, found) == page
    assert sum(len(results.get("levels", [])) for results in found) > 10


def test_streams_that_were_carried_got_exactly_their_words() -> None:
    for path in (ROOT / "benchmarks" / "results").glob("live-*.json"):
        for level in json.loads(path.read_text("utf-8")).get("levels", []):
            assert level["exact"] == level["streams"] - level["refused"], path.name


def test_the_published_parts_are_the_measured_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    parts = importlib.import_module("parts")
    found = json.loads((ROOT / "benchmarks" / "results" / "parts-de-en.json").read_text("utf-8"))
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    assert parts.between(parts.TABLE, page, parts.table(found)) == page

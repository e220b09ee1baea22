"""The script that compares a converted model with `transformers`, token by token."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return ROOT / "benchmarks" / "vs_transformers.py"


@pytest.mark.parametrize(("kind", "languages"), [("marian", ["fra"]), ("m2m", ["af", "am"])])
def test_all_sentences_are_equal(
    kind: str,
    languages: list[str],
    script: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Those that run into the limit too."""
    numbers, folder = tmp_path / "numbers.json", request.getfixturevalue(kind)
    options = ["--languages", *languages, "--lines", "120", "--json", str(numbers)]
    monkeypatch.setattr(sys, "argv", ["vs_transformers", str(folder), *options])
    runpy.run_path(str(script), run_name="__main__")
    found: dict[str, Any] = json.loads(numbers.read_text())
    assert sum(row["sentences"] for row in found["results"]) == 120
    assert found["tokens"] > 500
    assert all(row["what"].startswith("equal") for row in found["results"])


def test_a_difference_is_found(script: Path) -> None:
    compared = runpy.run_path(str(script), run_name="script")["compared"]

    class Theirs:
        def __init__(self, margin: float) -> None:
            self.found = margin

        def margin(self, source: list[int], written: list[int]) -> float:
            assert written == [5], "what both wrote before they differ"
            return self.found

    assert compared(Theirs(0.5), [3], [5, 6, 7], [5, 6, 7]) == "equal"
    assert compared(Theirs(0.5), [3], [5] * 54, [5] * 54) == "equal, cut at the limit"
    assert compared(Theirs(0.5), [3], [5, 6, 7], [5, 7, 7]) == "different"
    assert compared(Theirs(1e-5), [3], [5, 6], [5]) == "rounding decided"

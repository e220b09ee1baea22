"""A model written as the hub lays out NLLB and converted again is the same model."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from bethink import Translator
from bethink.convert import convert
from bethink.folder import Folder
from tests.convert.hub import sentences, write_m2m

ROOT = Path(__file__).parents[2]
LANGUAGES = ["deu_Latn", "eng_Latn"]


def test_written_and_converted_again_it_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "runs"))
    layout = importlib.import_module("hub_layout")
    asked = {"source": LANGUAGES[0], "target": LANGUAGES[1], "precision": "float32"}
    first = convert(write_m2m(tmp_path / "hub", listed=False, steps=60), tmp_path / "first", **asked)
    layout.write(Folder.open(first), tmp_path / "again", LANGUAGES)
    second = convert(tmp_path / "again", tmp_path / "second", **asked)
    lines = [pair.source for pair in sentences(30, seed=9)]
    said = [
        [one.text for one in Translator(path, threads=1).translate_many(lines, "offline")] for path in (first, second)
    ]
    assert said[0] == said[1]
    assert len({*said[0]}) > 10, "the model says different things"

"""Tables and pictures follow from the record alone, and what is no record is refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from bethink.analysis.catalogue import CATALOGUE, load, markdown, save
from bethink.analysis.robustness import Outcome, Robustness
from bethink.errors import DataError, UsageError
from tests.analysis.test_pictures import FINDINGS


@pytest.mark.parametrize("name", FINDINGS)
def test_what_was_saved_comes_back_and_says_the_same(name: str, tmp_path: Path) -> None:
    analysis, make = FINDINGS[name]
    found = make()
    save(tmp_path / "a", analysis, found)
    again, read = load(tmp_path / "a" / f"{analysis}.json")
    save(tmp_path / "b", again, read)
    assert repr(read) == repr(found)  # where nan is like nan
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_every_analysis_is_tried_here() -> None:
    assert {analysis for analysis, _ in FINDINGS.values()} == set(CATALOGUE)


def test_what_is_not_a_number_stays_unknown(tmp_path: Path) -> None:
    silent = Robustness("m", "s", (Outcome("p", "clean", 1, 0.0, math.nan, 1, 0),))
    save(tmp_path, "robustness", silent)
    _, read = load(tmp_path / "robustness.json")
    assert math.isnan(read.outcomes[0].LAAL)
    assert markdown("robustness", read) == markdown("robustness", silent)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "alignment.json is not the record of an analysis"),
        ("[]", "the record is \\[\\]"),
        ('{"model": 1}', "model is 1"),
        ('{"model": "m", "pairs": "many", "points": []}', "pairs is 'many'"),
        ('{"model": "m", "pairs": 1, "points": [{"policy": "p"}]}', "it lacks 'AL'"),
        ('{"model": "m", "pairs": 1, "points": [], "more": 1}', "it has 'more'"),
    ],
)
def test_what_is_no_record_is_told(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "alignment.json").write_text(text, "utf-8")
    with pytest.raises(DataError, match=message):
        load(tmp_path / "alignment.json")


def test_the_name_of_the_file_says_which_analysis_it_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no analysis named 'degrees'.*Did you mean 'degree'"):
        load(tmp_path / "degrees.json")

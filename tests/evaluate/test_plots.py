"""Pictures are made in every format, show what they should, and refuse what they cannot show."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from bethink.errors import DataError, UsageError
from bethink.evaluate import Quality, Result, Scores, plots
from tests.evaluate.made import translation


def result(policy: str, lag: float, bleu: float, model: str = "m") -> Result:
    found = {"paper": {"BLEU": Quality(bleu, "s")}, "standard": {"BLEU": Quality(bleu, "s")}}
    return Result(model, policy, Scores(5, {"paper": {"AL": lag}}, found, 0.0), "x/instances.log")


RESULTS = [
    result("wait-k:k=3,rate=1.0", 3, 20),
    result("wait-k:k=1,rate=1.0", 1, 15),
    result("pe:k=1,rho=0.24,r=2", 1.5, 17),
    result("pe:k=1,rho=0.5,r=2", 1.7, 18),
    result("adaptive:rho_1=0.6,rho_k=0.0,k_max=10", 2, 18),
    result("adaptive:rho_1=0.8,rho_k=0.0,k_max=10", 4, 21),
    result("offline", 20, 25),
]


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_pictures_are_made_and_come_out_the_same_twice(tmp_path: Path, ending: str) -> None:
    made = translation("eins zwei drei vier", "one two three", degrees=True)
    heads = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}
    first, second = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    for file in (first, second):
        plots.curves(RESULTS, file)
    assert first.read_bytes().startswith(heads[ending])
    assert first.read_bytes() == second.read_bytes()
    plots.degree(made, list("abcde"), list("wxyz"), first)
    assert first.read_bytes().startswith(heads[ending])


def test_text_in_an_svg_needs_no_font(tmp_path: Path) -> None:
    plots.curves(RESULTS, tmp_path / "a.svg")
    root = ET.parse(tmp_path / "a.svg").getroot()
    assert not list(root.iter("{http://www.w3.org/2000/svg}text"))
    assert not list(root.iter("{http://www.w3.org/2000/svg}date"))


def test_a_line_is_a_policy_whatever_its_k() -> None:
    lines = plots._lines(RESULTS[:-1])
    assert {label: len(members) for label, members in lines.items()} == {
        "wait-k": 2,
        "pe (rho=0.24, r=2)": 1,
        "pe (rho=0.5, r=2)": 1,
        "adaptive": 2,
    }
    two = plots._lines([RESULTS[0], result("wait-k:k=3,rate=1.0", 3, 20, model="n")])
    assert list(two) == ["m: wait-k", "n: wait-k"]


def test_the_degree_of_a_row_is_what_writing_left() -> None:
    made = translation("eins zwei drei vier", "one two three", k=2, degrees=True)
    grid = plots._grid(made)
    assert grid.shape == (4, 5)
    assert grid[0, :2] == pytest.approx([0.9, 0.1])
    assert np.isnan(grid[0, 2:]).all()
    assert np.isnan(grid[3]).all()  # the source was complete: nothing was weighed


@pytest.mark.parametrize("degrees", [True, False])
@pytest.mark.parametrize("words", [1, 5, 60])
def test_any_length_and_any_label_can_be_drawn(tmp_path: Path, words: int, degrees: bool) -> None:
    made = translation(" ".join(["wort"] * words), " ".join(["word"] * words), degrees=degrees)
    labels = ["$x$", "<b>", "a_b^{", "người", "%", "\\n"] * words
    plots.degree(made, labels[: words + 1], labels[: words + 1], tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size > 1000


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    made = translation("eins zwei", "one two")
    with pytest.raises(DataError, match="2 source and 3 target labels; expected 3 and 3"):
        plots.degree(made, ["a", "b"], ["a", "b", "c"], tmp_path / "a.svg")
    with pytest.raises(DataError, match="nothing to draw"):
        plots.degree(translation("", ""), ["a"], [], tmp_path / "a.svg")
    with pytest.raises(UsageError, match=r"must end in \.svg or \.png"):
        plots.curves(RESULTS, tmp_path / "a.gif")
    with pytest.raises(DataError, match="no LAAL in profile 'simuleval'; there are paper AL"):
        plots.curves(RESULTS, tmp_path / "a.svg", latency="LAAL", profile="simuleval")
    with pytest.raises(DataError, match="no results to draw"):
        plots.curves([], tmp_path / "a.svg")
    assert not list(tmp_path.iterdir())

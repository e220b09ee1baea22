"""Pictures are made in every format, show what they should, and refuse what they cannot show."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bethink.errors import DataError, UsageError
from bethink.evaluate import Quality, Result, Scores, evaluate, plots
from bethink.evaluate.drawing import band
from bethink.evaluate.instances import interval
from bethink.policy import WaitK, parse
from tests.evaluate.made import FakeTranslator, golden_lines, translation


def result(policy: str, lag: float, bleu: float, model: str = "m") -> Result:
    found = {"paper": {"BLEU": Quality(bleu, "s")}, "standard": {"BLEU": Quality(bleu, "s")}}
    return Result(model, policy, Scores(5, {"simuleval": {"LAAL": lag}}, found, 0.0), "x/instances.log")


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("results")
    sources, references = golden_lines("source.txt"), golden_lines("reference.txt")
    translator: Any = FakeTranslator(sources, references)
    evaluate(translator, sources, references, [WaitK(1), WaitK(3), parse("offline")], made)
    return made


def bands(picture: Path) -> int:
    """How many areas a picture fills between lines, and how many points stand on a bar."""
    kinds = ("FillBetweenPolyCollection", "LineCollection")
    return sum(picture.read_text("utf-8").count(f'id="{kind}') for kind in kinds)


def test_a_line_whose_logs_are_there_has_a_band(folder: Path, tmp_path: Path) -> None:
    results, logs = plots.load([folder])
    assert len(results) == len(logs) == 3
    plots.curves(results, tmp_path / "with.svg", logs=logs)
    plots.curves(results, tmp_path / "without.svg")
    assert (bands(tmp_path / "with.svg"), bands(tmp_path / "without.svg")) == (1, 0)
    plots.curves(results[:1], tmp_path / "one.svg", logs=logs)
    assert bands(tmp_path / "one.svg") == 2  # a point stands on a bar instead


def test_the_band_is_as_high_as_the_interval(folder: Path) -> None:
    from matplotlib.figure import Figure

    results, logs = plots.load([folder])
    halves = [interval(logs[result.model, result.policy], "BLEU", "paper") for result in results[:2]]
    axes = Figure().add_subplot()
    band(axes, [(1, 30), (3, 40)], halves, 0)
    box = axes.collections[0].get_datalim(axes.transData)
    assert (box.y0, box.y1) == pytest.approx((min(30 - halves[0], 40 - halves[1]), max(30 + halves[0], 40 + halves[1])))


def test_results_away_from_their_logs_are_drawn_without_bands(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_bytes((folder / "results.json").read_bytes())
    results, logs = plots.load([tmp_path / "results.json"])
    assert (len(results), logs) == (3, {})
    plots.curves(results, tmp_path / "a.svg", logs=logs)
    assert bands(tmp_path / "a.svg") == 0


def test_a_line_with_a_log_missing_has_no_band(folder: Path, tmp_path: Path) -> None:
    results, logs = plots.load([folder])
    some = {key: log for key, log in logs.items() if key[1] != str(WaitK(3))}
    plots.curves(results, tmp_path / "a.svg", logs=some)
    assert bands(tmp_path / "a.svg") == 0


def test_a_line_is_a_policy_whatever_its_k() -> None:
    lines = plots._curves(RESULTS[:-1])
    assert {label: len(members) for label, members in lines.items()} == {
        "wait-k": 2,
        "pe (rho=0.24, r=2)": 1,
        "pe (rho=0.5, r=2)": 1,
        "adaptive": 2,
    }
    two = plots._curves([RESULTS[0], result("wait-k:k=3,rate=1.0", 3, 20, model="n")])
    assert list(two) == ["m: wait-k", "n: wait-k"]


def test_many_settings_with_one_point_each_are_one_line() -> None:
    cared = [result(f"weigh:k=1,r=8,rate=1.0,care={care}", 3 + care, 20 + care) for care in (0.5, 0.7, 0.9)]
    assert {label: len(members) for label, members in plots._curves(cared).items()} == {"weigh": 3}
    assert len(plots._curves(cared[:2])) == 2


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
    with pytest.raises(DataError, match="no AL in profile 'paper'; there are simuleval LAAL"):
        plots.curves(RESULTS, tmp_path / "a.svg", latency="AL", profile="paper")
    with pytest.raises(DataError, match="no results to draw"):
        plots.curves([], tmp_path / "a.svg")
    assert not list(tmp_path.iterdir())


def test_what_makes_a_policy_slower_moves_along_its_line() -> None:
    assert plots.line_of("weigh:k=1,r=4,rate=1.2,rho=0.98") == plots.line_of("weigh:k=5,r=12,rate=1.2,rho=0.98")
    assert (
        plots.line_of("pe:k=1,rho=0.3,r=2")
        == plots.line_of("pe:k=5,rho=0.3,r=2")
        != plots.line_of("pe:k=1,rho=0.3,r=6")
    )


def test_results_of_different_test_sets_share_no_picture(tmp_path: Path) -> None:
    other = replace(RESULTS[0], test="another")
    with pytest.raises(DataError, match="of different test sets, so they do not compare"):
        plots.curves([RESULTS[1], other], tmp_path / "a.svg")

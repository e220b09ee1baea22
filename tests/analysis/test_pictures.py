"""Every analysis has a table and a picture that can be drawn twice alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bethink.analysis.ablation import Ablation, Row
from bethink.analysis.alignment import Paths, Point
from bethink.analysis.calibration import Bin, Calibration, Reliability
from bethink.analysis.catalogue import CATALOGUE
from bethink.analysis.degree import look
from bethink.analysis.gold import golden
from bethink.analysis.overlap import Overlap, Rates
from bethink.analysis.robustness import Outcome, Robustness
from bethink.analysis.sheet import Sheet, number, percent
from tests.analysis.test_degree import PAIRS, Plain, Sure, translator


def findings(*, capsules: bool) -> Any:
    model = translator(Sure() if capsules else Plain(vocabulary=11))
    return look(model, [golden(model, pair) for pair in PAIRS * 10])


POINTS = tuple(Point(f"{name}:k={k},rate=1.0", k, k, 0.9, 0.5 / k, 7) for name in ("wait-k", "pe") for k in (1, 3))
FINDINGS: dict[str, tuple[str, Callable[[], Any]]] = {  # the analysis, and something it may find
    "degree": ("degree", lambda: findings(capsules=True)),
    "plain": ("degree", lambda: findings(capsules=False)),
    "alignment": ("alignment", lambda: Paths("m", 2, POINTS)),
    "overlap": (
        "overlap",
        lambda: Overlap("m", 2, (Rates(1, 0.5, 0.6, 0.7, 0.8), Rates(3, 0.5, 0.6, 0.7, 0.8, 0.8, 0.9, 0.1, 0.2))),
    ),
    "calibration": (
        "calibration",
        lambda: Calibration(
            "m",
            (
                Reliability(
                    "t",
                    2,
                    "weigh:k=3",
                    90,
                    60,
                    (Bin(0.2, 0.4, 30, 0.3, 0.25, 0.2), Bin(0.9, 1, 30, 0.95, 1, 0.9)),
                    0.1,
                    0.9,
                    None,
                ),
            ),
        ),
    ),
    "robustness": (
        "robustness",
        lambda: Robustness("m", "", tuple(Outcome(p, n, 2, 30, 3, 0, 0) for p in "ab" for n in ("clean", "typos"))),
    ),
    "ablation": (
        "ablation",
        lambda: Ablation(
            "paper",
            "",
            2,
            (
                Row("a", "wait-k:k=1", 1, 1, 1, 30, 0.5),
                Row("a", "wait-k:k=3", 3, None, None, 31, None),
                Row("b", "adaptive", 2, 2, 2, 31, 0.5, "a wait-k:k=1", 1, 1, 0.5, (0.5, None, 0.5)),
                Row("b", "offline", 20, 20, 20, 35, 0.5),
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_pictures_are_drawn_and_drawn_alike(name: str, tmp_path: Path) -> None:
    analysis, make = FINDINGS[name]
    draw, found = CATALOGUE[analysis].draw, make()
    for file in ("a.svg", "b.svg", "a.png"):
        draw(found, tmp_path / file)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_a_sheet_is_the_same_in_markdown_and_in_the_terminal() -> None:
    made = Sheet("T", ("policy", "x|y"), [("a", "1.00"), ("b", "")], "how to read it")
    assert made.markdown() == "**T**\n\n| policy | x\\|y |\n|---|---:|\n| a | 1.00 |\n| b |  |\n\nhow to read it\n"
    assert made.table().row_count == 2


def test_cells() -> None:
    assert (number(None), number(float("nan")), number(1.234, 1), number(2, sign=True)) == ("", "", "1.2", "+2.00")
    assert (percent(0.125), percent(None)) == ("12.5 %", "")

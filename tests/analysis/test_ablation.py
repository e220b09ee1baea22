"""Systems side by side: the differences are those of the results, and chance is told from merit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bethink.analysis.ablation import compare, load, sheets
from bethink.errors import DataError
from bethink.evaluate import evaluate
from bethink.policy import WaitK
from tests.evaluate.made import FakeTranslator, golden_lines

SOURCES, REFERENCES = golden_lines("source.txt"), golden_lines("reference.txt")


class Perfect(FakeTranslator):
    name = "perfect"

    def __init__(self, sources: list[str], references: list[str]) -> None:
        super().__init__(sources, references)
        self.known = dict(zip(sources, references, strict=True))


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("systems")
    for name, kind in (("base", FakeTranslator), ("same", FakeTranslator), ("better", Perfect)):
        translator: Any = kind(SOURCES, REFERENCES)
        evaluate(translator, SOURCES, REFERENCES, [WaitK(1), WaitK(4)], folder / name)
    return {name: folder / name for name in ("base", "same", "better")}


def test_each_system_is_compared_with_the_first_at_the_same_policy(systems: dict[str, Path]) -> None:
    found = compare(load(systems), samples=200)
    rows = {(row.system, row.policy): row for row in found.rows}
    first, last = str(WaitK(1)), str(WaitK(4))
    assert rows["base", first].BLEU_difference is None
    assert rows["same", last].baseline == f"base {last}"
    assert (rows["same", last].BLEU_difference, rows["same", last].p) == (0, 1)
    better = rows["better", first]
    assert better.BLEU_difference == pytest.approx(better.BLEU - rows["base", first].BLEU)
    assert better.p is not None
    assert better.p < 0.05
    assert better.interval is not None
    assert found.signature.startswith("nrefs:1|")


def test_points_within_the_first_curve_stand_above_it_by_their_difference(systems: dict[str, Path]) -> None:
    rows = compare(load(systems), samples=20).rows
    base = [row for row in rows if row.system == "base"]
    for row in rows:
        if row.system == "same":
            assert row.above == (0, 0, 0)
        for measure, value in zip(("AL", "LAAL", "DAL"), row.above, strict=True):
            lag, curve = getattr(row, measure), sorted((getattr(one, measure), one.BLEU) for one in base)
            if row.system == "better":
                inside = curve[0][0] <= lag <= curve[-1][0]
                level = float(np.interp(lag, *zip(*curve, strict=True)))
                assert value == (pytest.approx(row.BLEU - level) if inside else None)
    assert all(row.above == (None, None, None) for row in base)


def test_only_the_policies_named(systems: dict[str, Path]) -> None:
    found = compare(load(systems, [str(WaitK(4))]), "standard", samples=20)
    assert {row.policy for row in found.rows} == {str(WaitK(4))}
    [table] = sheets(found)
    assert len(table.rows) == 3
    assert f"{found.rows[2].BLEU_difference:+.2f}" in table.rows[2]
    with pytest.raises(DataError, match="no result of offline"):
        load(systems, ["offline"])


def test_other_sentences_are_no_comparison(systems: dict[str, Path], tmp_path: Path) -> None:
    translator: Any = FakeTranslator(SOURCES, REFERENCES)
    evaluate(translator, SOURCES[:5], REFERENCES[:5], [WaitK(1)], tmp_path)
    with pytest.raises(DataError, match="different test sets"):
        load({**systems, "other": tmp_path})


def test_another_policy_is_compared_where_the_lag_is_nearest(systems: dict[str, Path], tmp_path: Path) -> None:
    translator: Any = Perfect(SOURCES, REFERENCES)
    evaluate(translator, SOURCES, REFERENCES, [WaitK(5)], tmp_path)
    *first, last = compare(load({"base": systems["base"], "other": tmp_path}), samples=20).rows
    assert last.baseline == f"base {WaitK(4)}"
    assert all(row.interval is not None for row in (*first, last))


def test_a_schedule_that_reads_faster_is_no_part_of_the_curve(tmp_path: Path) -> None:
    """Beyond the curve's end there is no number, even where such a schedule reaches."""
    translator: Any = FakeTranslator(SOURCES, REFERENCES)
    evaluate(translator, SOURCES, REFERENCES, [WaitK(1), WaitK(2), WaitK(4, 1.5)], tmp_path / "base")
    evaluate(translator, SOURCES, REFERENCES, [WaitK(3)], tmp_path / "other")
    *_, last = compare(load({"base": tmp_path / "base", "other": tmp_path / "other"}), samples=20).rows
    assert last.above == (None, None, None)

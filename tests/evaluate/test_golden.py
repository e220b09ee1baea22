"""The same logs scored here and by SimulEval 1.1.4 give the same numbers; golden/make.py says how the files were made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from bethink.evaluate import Scores, evaluate, rescore
from bethink.policy import WaitK
from tests.evaluate.made import GOLDEN, FakeTranslator, golden_lines


def expected(name: str) -> dict[str, float]:
    return cast("dict[str, float]", json.loads((GOLDEN / name).read_text("utf-8"))["scores"])


def found(scores: Scores) -> dict[str, float]:
    measures = {name: value for name, value in scores.latency["simuleval"].items() if name not in ("CW", "YAAL")}
    return {"BLEU": scores.quality["standard"]["BLEU"].score, **measures}


@pytest.mark.parametrize("name", ["simuleval", "bethink"])
def test_scores_agree_with_simuleval(name: str) -> None:
    """`simuleval.log` was written by a real SimulEval run, `bethink.log` by bethink; both were scored by SimulEval."""
    assert found(rescore(GOLDEN / f"{name}.log")) == pytest.approx(expected(f"{name}.json"), abs=1e-6)


def test_a_log_of_simuleval_has_no_profile_that_needs_more_than_it_holds() -> None:
    assert set(rescore(GOLDEN / "simuleval.log").latency) == {"simuleval"}


def test_the_log_that_simuleval_read_is_the_log_that_is_written(tmp_path: Path) -> None:
    sources, references = [*golden_lines("source.txt"), ""], [*golden_lines("reference.txt"), "Nothing at all ."]
    translator: Any = FakeTranslator(sources, references)
    [result] = evaluate(translator, sources, references, [WaitK(2)], tmp_path)
    assert (tmp_path / result.log).read_text("utf-8") == (GOLDEN / "bethink.log").read_text("utf-8")
    assert found(result.scores) == pytest.approx(expected("bethink.json"), abs=1e-6)

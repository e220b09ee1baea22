"""The interval is sacrebleu's, the same every time, and found only once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bethink.evaluate import evaluate
from bethink.evaluate.instances import INTERVALS, interval, read_log
from bethink.policy import WaitK
from tests.evaluate.made import FakeTranslator, golden_lines, write_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    sources, references = golden_lines("source.txt"), golden_lines("reference.txt")
    translator: Any = FakeTranslator(sources, references)
    [result] = evaluate(translator, sources, references, [WaitK(2)], tmp_path)
    return tmp_path / result.log


def test_it_is_what_sacrebleu_says(log: Path) -> None:
    from sacrebleu.metrics.bleu import BLEU

    said, references = zip(*((one.prediction, one.reference) for one in read_log(log)), strict=True)
    theirs = BLEU(force=True).corpus_score(list(said), [list(references)], n_bootstrap=200)
    assert interval(log, samples=200) == pytest.approx(theirs._ci)
    assert interval(log, samples=200) > 0


def test_it_is_kept_until_the_log_or_the_question_changes(log: Path) -> None:
    kept = log.parent / INTERVALS
    first = interval(log, samples=50)
    [key] = json.loads(kept.read_text("utf-8"))
    kept.write_text(json.dumps({key: 1.5}), "utf-8")
    assert interval(log, samples=50) == 1.5, "what is kept is not found again"
    interval(log, profile="paper", samples=50)
    assert len(json.loads(kept.read_text("utf-8"))) == 2
    write_log(log, read_log(log)[:-1])
    assert interval(log, samples=50) not in (1.5, first)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": "b"}', "null"])
def test_a_memory_that_is_not_ours_does_no_harm(log: Path, content: str) -> None:
    (log.parent / INTERVALS).write_text(content, "utf-8")
    assert interval(log, samples=20) == interval(log, samples=20) > 0

"""Stability against what became of the words, with a model whose guesses are right as often as it says, or not."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from bethink.analysis.calibration import Calibration, calibration, propose_again, sheets
from bethink.backend import Row
from bethink.errors import DataError, ModelError
from bethink.policy import parse
from bethink.text import EOS, Words
from bethink.translator import Translator
from tests.fake import FakeBackend

WORDS = Words([*"abcd"])
LINES = [" ".join(letters) for letters in itertools.product("abcd", repeat=3)]


class Ahead(FakeBackend):
    """Writes the source from its second word on. Where that was not read yet it guesses `a`, and is as stable as it was told."""

    def __init__(self, stability: float | None = 0.25) -> None:
        super().__init__()
        self.stability = stability

    def row(self, source: Sequence[int], history: Sequence[tuple[int, int]]) -> Row:
        place = len(history)
        known = place < len(source) or EOS in source
        candidate = (source[place] if place < len(source) else EOS) if known else 3
        stability = None if self.stability is None else 0.99 if known else self.stability
        return Row(candidate, 0.5, np.zeros(len(source), np.float32), stability)


def found(backend: Ahead, policy: str) -> Calibration:
    translator = Translator.of(backend, WORDS, WORDS, name="fake", policy=parse("offline"))
    return calibration(translator, {"text": LINES}, [parse(policy)])


def test_a_guess_that_is_right_as_often_as_it_says_is_calibrated() -> None:
    [one] = found(Ahead(1 / 6), "wait-k:k=1").found
    assert (one.text, one.sentences) == ("text", 64)
    [guesses] = [each for each in one.bins if each.low == 0]
    assert guesses.stability == pytest.approx(1 / 6)
    assert guesses.kept == pytest.approx(1 / 6)  # one of four for the first two words, and none where the text ends
    assert one.error < 0.01
    assert one.confidence_auc == 0.5  # the model is as confident of everything


def test_a_guess_that_says_too_much_is_not() -> None:
    [one] = found(Ahead(0.9), "wait-k:k=1").found
    assert one.error > 0.3
    assert sum(each.words for each in one.bins) == one.early


def test_who_reads_first_has_only_words_that_survive() -> None:
    [one] = found(Ahead(), "wait-k:k=2").found
    assert {(each.kept, each.found) for each in one.bins} == {(1.0, 1.0)}
    assert one.auc is None  # there is nothing to tell apart


def test_proposals_are_those_of_the_whole_source_after_the_words_written() -> None:
    backend = Ahead()
    translator = Translator.of(backend, WORDS, WORDS, name="fake", policy=parse("wait-k:k=1"))
    [live] = translator.translate_many(["b c d"])
    assert live.text.split()[0] == "a"
    assert [WORDS.piece(token) for token in propose_again(backend, [live])[0][:2]] == ["c", "d"]
    assert not backend.sources, "every slot is closed"


def test_what_cannot_be_judged_is_told() -> None:
    with pytest.raises(ModelError, match="no judge.*bethink judge"):
        found(Ahead(None), "wait-k:k=1")
    with pytest.raises(DataError, match="wrote no word before"):
        found(Ahead(), "offline")


def test_the_table_has_a_row_for_each_bin() -> None:
    record = found(Ahead(), "wait-k:k=1")
    [sheet] = sheets(record)
    assert len(sheet.rows) == len(record.found[0].bins)
    assert "16.7 %" in sheet.markdown()

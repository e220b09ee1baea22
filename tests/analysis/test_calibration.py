"""Stability against whether words were right, with a model whose guesses are right as often as it says, or not."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from bethink.analysis.calibration import Calibration, Hindsight, calibration, early_words, sheets
from bethink.backend import Row
from bethink.errors import DataError, ModelError
from bethink.policy import Action, Reason, parse
from bethink.text import EOS, Words
from bethink.trace import Step, Translation
from bethink.train.judge import ACCEPTED
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


def look_back(translations: Sequence[Translation]) -> list[list[Hindsight]]:
    """What the model above says of its words once it has read all. The letter before the best one is right, too."""
    found = []
    for one in translations:
        reads, writes = (
            [step.token for step in one.steps if step.action is action] for action in (Action.READ, Action.WRITE)
        )
        best = [*reads[1:], *[EOS] * len(writes)]
        found.append([Hindsight(right=b in (w, w + 1), kept=w == b) for w, b in zip(writes, best, strict=False)])
    return found


def found(backend: Ahead, policy: str) -> Calibration:
    translator = Translator.of(backend, WORDS, WORDS, name="fake", policy=parse("offline"))
    return calibration(translator, {"text": LINES}, [parse(policy)], look_back)


def test_a_guess_that_is_right_as_often_as_it_says_is_calibrated() -> None:
    [one] = found(Ahead(1 / 3), "wait-k:k=1").found
    assert (one.text, one.sentences) == ("text", 64)
    [guesses] = [each for each in one.bins if each.low == 0.2]
    assert guesses.stability == pytest.approx(1 / 3)
    assert guesses.right == pytest.approx(1 / 3)  # `a` for `a` or `b`: two of four
    assert guesses.kept == pytest.approx(1 / 6)  # one of four for the first two words, and none where the text ends
    assert one.error < 0.01
    assert one.confidence_auc == 0.5  # the model is as confident of everything


def test_a_guess_that_says_too_much_is_not() -> None:
    [one] = found(Ahead(0.9), "wait-k:k=1").found
    assert one.error > 0.3
    assert sum(each.words for each in one.bins) == one.early


def test_who_reads_first_has_only_words_that_are_right() -> None:
    [one] = found(Ahead(), "wait-k:k=2").found
    assert {(each.right, each.kept) for each in one.bins} == {(1.0, 1.0)}
    assert one.auc is None  # there is nothing to tell apart


def test_a_word_is_as_stable_and_as_right_as_its_worst_token() -> None:
    chances = ((0.9, True, True), (0.4, True, False), (0.7, False, False))
    steps = [
        Step(Action.WRITE, 4, 1, 1, n + 1, stability=stability, reason=Reason("sure"))
        for n, (stability, *_) in enumerate(chances)
    ]
    later = [Hindsight(right, kept) for _, right, kept in chances]
    [first, second] = early_words([steps[:2], steps[2:]], later)
    assert (first.stability, first.right, first.kept) == (0.4, True, False)
    assert (second.stability, second.right, second.kept) == (0.7, False, False)


def test_words_that_were_copied_without_the_model_do_not_count() -> None:
    copied = [Step(Action.WRITE, EOS, 1, 1, 1, reason=Reason("copied"))]
    assert list(early_words([copied], [Hindsight(right=True, kept=True)])) == []


def test_what_cannot_be_judged_is_told() -> None:
    with pytest.raises(ModelError, match="no judge.*bethink judge"):
        found(Ahead(None), "wait-k:k=1")
    with pytest.raises(DataError, match="wrote no word before"):
        found(Ahead(), "offline")


def test_the_table_has_a_row_for_each_bin() -> None:
    record = found(Ahead(), "wait-k:k=1")
    [sheet] = sheets(record)
    assert len(sheet.rows) == len(record.found[0].bins)
    assert "| 33.3 % | 16.7 % |" in sheet.markdown()
    assert f"at least {ACCEPTED} times as likely" in sheet.note

"""R^T and R^S by hand, over heads that are given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from bethink.evaluate.analyses.gold import Pair, golden
from bethink.evaluate.analyses.overlap import overlap, sheets
from bethink.policy import parse
from bethink.text import EOS, Words
from bethink.translator import Translator
from tests.fake import FakeBackend

WORDS = Words([chr(97 + n) for n in range(26)])
TRANSLATOR = Translator.of(FakeBackend(), WORDS, WORDS, name="fake", policy=parse("offline"))
Ids = npt.NDArray[np.int64]


class Heads:
    """Remembers the first words of each side, as many as it has places; or nothing at all."""

    def __init__(self, *, blank: bool = False) -> None:
        self.blank = blank

    def likeliest(
        self, source: Sequence[int], target: Sequence[int], path: Sequence[int], written: int, read: int
    ) -> tuple[Ids, Ids]:
        assert target[0] == EOS
        assert source[-1] == EOS
        assert len(path) == len(target)
        left, right = ([-1] * written, [-1] * read) if self.blank else (target[1 : written + 1], source[:read])
        return np.tile(left, (len(target), 1)), np.tile(right, (len(target), 1))


def test_what_is_remembered_of_what_was_written_and_read() -> None:
    long = golden(TRANSLATOR, Pair("a b c", "d e f g h i j k l m"))
    [rates] = overlap("m", Heads(), [long], [1]).rates
    assert rates.target == pytest.approx(np.mean([1] * 7 + [7 / 8, 7 / 9, 7 / 10]))  # seven places, ten words
    assert (rates.source, rates.target_held, rates.source_held) == (1, 1, 1)


def test_repeated_words_count_once() -> None:
    twice = golden(TRANSLATOR, Pair("a a", "d d"))
    assert overlap("m", Heads(), [twice], [3]).rates[0].target == 1


def test_heads_that_know_nothing() -> None:
    pair = golden(TRANSLATOR, Pair("a b", "c d"))
    found = overlap("m", Heads(blank=True), [pair], [1, 9])
    assert [(one.k, one.target, one.source) for one in found.rates] == [(1, 0, 0), (9, 0, 0)]
    assert sheets(found)[0].rows[1] == ("wait-9", "0.000", "0.000", "0.000", "0.000")

"""R^T and R^S by hand, over heads that are given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from bethink.analysis.gold import golden
from bethink.analysis.overlap import overlap, sheets
from bethink.policy import parse
from bethink.text import EOS, Words
from bethink.toy import AlignedPair
from bethink.translator import Translator
from tests.fake import FakeBackend

LETTERS = [chr(97 + n) for n in range(26)]
WORDS = Words(LETTERS)
TRANSLATOR = Translator.of(FakeBackend(), WORDS, WORDS, name="fake", policy=parse("offline"))
Ids = npt.NDArray[np.int64]


class Heads:
    """Remembers the first words of each side, as many as it has places; or always the same words, whatever was said."""

    def __init__(self, *, constant: int | None = None) -> None:
        self.constant = constant

    def likeliest(
        self, source: Sequence[int], target: Sequence[int], path: Sequence[int], written: int, read: int
    ) -> tuple[Ids, Ids]:
        assert target[0] == EOS
        assert source[-1] == EOS
        assert len(path) == len(target)
        left, right = target[1 : written + 1], source[:read]
        if self.constant is not None:
            left, right = [self.constant] * written, [self.constant] * read
        return np.tile(left, (len(target), 1)), np.tile(right, (len(target), 1))


def test_what_is_remembered_of_what_was_written_and_read() -> None:
    long = golden(TRANSLATOR, AlignedPair("a b c", "d e f g h i j k l m"))
    [rates] = overlap("m", Heads(), [long], [1]).rates
    most = np.mean([1] * 7 + [7 / 8, 7 / 9, 7 / 10])  # seven places, ten words
    assert (rates.target, rates.target_ceiling) == (pytest.approx(most), pytest.approx(most))
    assert (rates.source, rates.source_ceiling, rates.target_held, rates.source_held) == (1, 1, 1, 1)


def test_repeated_words_count_once() -> None:
    twice = golden(TRANSLATOR, AlignedPair("a a", "d d"))
    assert overlap("m", Heads(), [twice], [3]).rates[0].target == 1


def test_the_floor_is_what_the_best_constant_guess_reaches() -> None:
    """Every sentence begins with `d` and goes on with eight words of its own: seven places hold `d` and six of those."""
    pairs = [golden(TRANSLATOR, AlignedPair("a", f"d {' '.join(LETTERS[n : n + 8])}")) for n in (4, 12)]
    d = pairs[0].target.ids[0]
    guessed = overlap("m", Heads(constant=d), pairs, [1]).rates[0]
    floor = guessed.target_floor
    assert floor is not None
    assert guessed.target == pytest.approx(np.mean([1 / n for n in range(1, 10)]))
    early = [np.mean([1 / n if n > place else 0 for n in range(1, 10)]) / 2 for place in (1, 2, 3)]
    assert floor == pytest.approx(guessed.target + 2 * sum(early)), "and the earliest words of both sentences"
    assert guessed.source_floor == pytest.approx(1), "`a` and the end of the sentence are all that is ever read"


def test_short_sources_are_told_apart() -> None:
    pairs = [golden(TRANSLATOR, AlignedPair(" ".join(LETTERS[:n]), "d e")) for n in (7, 8, 20, 21)]
    found = overlap("m", Heads(), pairs, [9])
    assert (found.pairs, found.short_pairs) == (4, 2)
    assert found.short == overlap("m", Heads(), pairs[1:3], [9]).rates
    assert overlap("m", Heads(), pairs[:1], [9]).short == ()


def test_heads_that_know_nothing() -> None:
    pair = golden(TRANSLATOR, AlignedPair("a b", "c d"))
    found = overlap("m", Heads(constant=-1), [pair], [1, 9])
    assert [(one.k, one.target, one.source) for one in found.rates] == [(1, 0, 0), (9, 0, 0)]
    [table] = sheets(found)
    assert table.rows[1] == ("wait-9", "0.000", "1.000", "1.000", "0.000", "0.000", "1.000", "1.000", "0.000")

"""Sufficiency and necessity by hand."""

from __future__ import annotations

import pytest

from bethink.analysis.alignment import paths, shares, sheets
from bethink.analysis.gold import golden
from bethink.errors import DataError
from bethink.policy import parse
from bethink.text import Words
from bethink.toy import AlignedPair
from bethink.translator import Translator
from tests.fake import FakeBackend

WORDS = Words(list("abcdefgh"))
TRANSLATOR = Translator.of(FakeBackend(ending=0), WORDS, WORDS, name="fake", policy=parse("offline"))
TURNED = golden(TRANSLATOR, AlignedPair("a b c d", "h e f g", ((3, 0), (0, 1), (1, 2), (2, 3), (0, 3))))


def test_what_was_read_was_enough_or_not_and_more_than_needed_or_not() -> None:
    assert shares(TURNED, [1, 2, 3, 4, 5]) == [None, 1 / 2, 2 / 3, 3 / 4]
    assert shares(TURNED, [5, 5, 5, 5, 5]) == [1, 1 / 4, 1 / 2, 3 / 4]  # the end of the sentence is no word


def test_policies_by_hand() -> None:
    found = paths(TRANSLATOR, [TURNED], [parse("wait-k:k=1"), parse("wait-k:k=4"), parse("offline")])
    first, fourth, offline = found.points
    assert (first.sufficiency, first.necessity) == (3 / 4, pytest.approx((1 / 2 + 2 / 3 + 3 / 4) / 3))
    assert (fourth.sufficiency, offline.sufficiency) == (1, 1)
    assert fourth.necessity == offline.necessity == pytest.approx((1 + 1 / 4 + 1 / 2 + 3 / 4) / 4)
    assert (first.AL, offline.AL) == (1, 5)  # tokens, the end of the sentence among them
    [table] = sheets(found)
    assert table.rows[0] == ("wait-k:k=1,rate=1.0", "1.00", "1.00", "0.750", "0.639")


def test_policies_that_count_words_are_followed_too() -> None:
    [token], [word] = (paths(TRANSLATOR, [TURNED], [parse(f"wait-k:2{unit}")]).points for unit in ("", ",unit=word"))
    assert (word.sufficiency, word.necessity) == (token.sufficiency, token.necessity)  # here every word is one token


def test_pairs_without_links_are_told() -> None:
    with pytest.raises(DataError, match="none of the pairs is aligned"):
        paths(TRANSLATOR, [golden(TRANSLATOR, AlignedPair("a", "b"))], [parse("offline")])

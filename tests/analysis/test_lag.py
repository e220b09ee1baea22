"""Delays that people feel, where computing takes as long as the test says."""

from __future__ import annotations

import pytest

from bethink.analysis import lag
from bethink.analysis.lag import lags, sheets
from bethink.errors import DataError
from bethink.policy import parse
from bethink.text import Words
from bethink.translator import Translator
from tests.analysis.test_degree import Sure

WORDS = Words([*"abcdefgh", "."])


class Clock:
    """Each look is a given number of seconds after the last but one: computing takes that long every time."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds, self.looks = 0.0, seconds, 0

    def perf_counter(self) -> float:
        self.looks += 1
        self.now += self.seconds if self.looks % 2 == 0 else 0.0
        return self.now


def translator() -> Translator:
    return Translator.of(Sure(), WORDS, WORDS, name="fake", policy=parse("offline"))


def test_offline_waits_for_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three words, a second each, three words back at the end: 2, 1 and 0 seconds late, and the computing of one word."""
    monkeypatch.setattr(lag, "time", Clock(0.05))
    [felt] = lags(translator(), ["a b c"], [parse("offline")], wpm=60).felt
    assert felt.words == 3
    assert felt.lag[0] == pytest.approx(1050)
    assert felt.response == pytest.approx((50, 50, 50))
    assert felt.load == pytest.approx(4 * 0.05 / 3)


def test_who_computes_longer_than_the_speaker_speaks_falls_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "time", Clock(1.5))
    [slow] = lags(translator(), ["a b c"] * 5, [parse("wait-k:k=1")], wpm=60).felt
    assert slow.load > 1
    assert slow.lag[-1] > 5000


def test_wait_k_lags_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "time", Clock(0.0))
    first, second = lags(translator(), ["a b c"], [parse("wait-k:k=1"), parse("wait-k:k=2")], wpm=60).felt
    assert first.lag[0] == 0
    assert second.lag[0] == 1000
    assert (first.response, second.response) == ((0, 0, 0), (0, 0, 0))


def test_silence_has_no_delay() -> None:
    with pytest.raises(DataError, match="nothing to say"):
        lags(translator(), [" "], [parse("offline")])


def test_the_table_says_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "time", Clock(0.05))
    [table] = sheets(lags(translator(), ["a b c"], [parse("offline")], wpm=60))
    assert table.rows[0][:2] == ("offline", "1050")
    assert "60 words per minute" in table.note

"""Ratios of what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from bethink.analysis import speed as analysis
from bethink.analysis.speed import Cost, once, sheets
from bethink.policy import Policy, parse
from bethink.text import Words
from bethink.translator import Translator
from tests.analysis.test_degree import Sure

WORDS = Words(list("abcdefgh"))


def test_ratios_are_taken_within_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine slows down from turn to turn; the second policy stays twice as dear, once three times."""
    costs: Iterator[Cost] = iter(Cost(seconds, 10, 13, 20) for seconds in (99, 99, 1, 2, 5, 10, 50, 150))
    seen: list[str] = []

    def measured(_model: Translator, _sentences: Sequence[str], policy: Policy, _streams: int) -> Cost:
        seen.append(policy.name)
        return next(costs)

    monkeypatch.setattr(analysis, "once", measured)
    model = Translator.of(Sure(), WORDS, WORDS, name="sure", policy=parse("offline"))
    found = analysis.speed(model, ["a"] * 3, [parse("wait-k:1"), parse("adaptive")], turns=3)
    assert seen == ["wait-k", "adaptive"] * 4
    first, second = found.paces
    assert (first.ratio, second.ratio, second.low, second.high) == (1, 2, 2, 2.5)
    assert second.seconds_per_token == pytest.approx(1.0)
    assert (second.rounds_per_token, second.rows_per_token) == (1.3, 2.0)
    assert sheets(found)[0].rows[1][2] == "2.00"


def test_a_run_counts_what_it_took() -> None:
    model = Translator.of(Sure(), WORDS, WORDS, name="sure", policy=parse("offline"))
    cost = once(model, ["a b c"] * 4, parse("wait-k:k=1"), 2)
    assert (cost.tokens, cost.seconds > 0) == (16, True)
    assert cost.rounds < cost.rows

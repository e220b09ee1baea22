"""Policies that count words: a word is read whole, proposed and decided on whole, and written whole; all shortcuts stay exact."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bethink.engine import Engine
from bethink.errors import UsageError
from bethink.policy import Action, parse
from bethink.serve.models import Model
from bethink.stream import LONGEST_WORD, Stream
from bethink.text import EOS
from bethink.trace import Step
from bethink.translator import Translator
from tests import naive
from tests.fake import FakeBackend
from tests.test_engine import interleaved, outcome, words

SPECS = [
    "wait-k:1,unit=word",
    "wait-k:2,1.5,unit=word",
    "adaptive:0.9,0.2,4,unit=word",
    "weigh:k=1,r=3,rate=1.2,rho=0.9,unit=word",
    "pe:k=1,rho=0.7,r=2,unit=word",
    "pe:k=2,rho=0.9,r=1,unit=word",
]
# Ids 3, 6 and 9 leave a word open, 7 is a sign that attaches to the word before it.
VOCABULARY: Any = SimpleNamespace(
    kind="word-final", closes_word=lambda token: token == EOS or token % 3 != 0, attaches=lambda token: token == 7
)


def alone(backend: FakeBackend, spec: str, source: list[list[int]], *, speculate: bool = True) -> list[Step]:
    engine = Engine(backend, speculate=speculate)
    stream = engine.open(parse(spec), VOCABULARY)
    for word in source:
        engine.feed(stream, word)
    engine.close(stream)
    engine.run()
    assert stream.done
    return stream.take()


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SPECS), words, st.integers(0, 10**6))
def test_streaming_is_naive_recomputation(spec: str, source: list[list[int]], seed: int) -> None:
    backend = FakeBackend(seed)
    expected = naive.translate_by_word(
        parse(spec),
        source,
        lambda x, y, g: backend.row(x[: g[-1]], list(zip(y, g, strict=True))),
        VOCABULARY,
        LONGEST_WORD,
    )
    steps = alone(backend, spec, source)
    assert outcome(steps) == expected
    assert alone(backend, spec, source, speculate=False) == steps, "guessing leaves no trace"
    assert not backend.sources


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SPECS), words, st.integers(0, 10**6))
def test_only_whole_words_are_read_and_no_word_is_torn(spec: str, source: list[list[int]], seed: int) -> None:
    steps = alone(FakeBackend(seed), spec, source)
    ends = {sum(map(len, source[: n + 1])) for n in range(len(source))} | {sum(map(len, source)) + 1}
    prefixes = [step.read for step in steps if step.action is Action.WRITE]
    assert set(prefixes) <= ends
    written = [step for step in steps if step.action is Action.WRITE]
    for before, step in itertools.pairwise(written):
        if not VOCABULARY.closes_word(before.token) and step.read != before.read:
            assert step.reason.code in ("source_complete", "word_begun")  # the model would have ended inside the word


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SPECS), words), min_size=1, max_size=8), st.integers(0, 10**6))
def test_interleaved_is_alone(jobs: list[tuple[str, list[list[int]]]], seed: int) -> None:
    backend, chance = FakeBackend(seed), random.Random(seed)
    expected = [alone(backend, spec, source) for spec, source in jobs]
    engine = Engine(backend, batch=3)
    streams = [engine.open(parse(spec), VOCABULARY) for spec, _ in jobs]
    assert interleaved(engine, streams, [source for _, source in jobs], chance) == expected


def test_a_comma_is_no_word() -> None:
    """wait-1: after each word that counts, one more is read before the next."""
    stream = Stream(parse("wait-k:1,unit=word"), 0, VOCABULARY)
    for token, complete in ((4, 1), (7, 1), (3, 1), (5, 2), (7, 2), (EOS, 3)):
        begins = not stream._in_word()
        stream._target.append(token)
        stream._count_word(token, begins)
        assert stream.written == complete


def test_who_cannot_count_words_says_so() -> None:
    with pytest.raises(UsageError, match="counts words, but this stream was opened without a vocabulary"):
        Stream(parse("wait-k:1,unit=word"), 0)


def test_the_unit_is_part_of_the_text_form_where_it_is_not_the_token() -> None:
    assert str(parse("wait-k:3,unit=word")) == "wait-k:k=3,rate=1.0,unit=word"
    assert str(parse("wait-k:3,unit=token")) == "wait-k:k=3,rate=1.0"


def test_a_model_that_marks_only_the_beginning_of_words_refuses_to_count_them() -> None:
    with pytest.raises(
        UsageError, match="de-en has a vocabulary that marks only the beginning of words; use unit=token"
    ):
        Translator("de-en").served("weigh:k=3,unit=word")
    assert Translator("toy").translate("te riki .", "wait-k:1,unit=word")


@pytest.mark.parametrize(("name", "offered"), [("toy", True), ("de-en", False)])
def test_the_unit_is_offered_where_the_model_can_count_words(name: str, offered: bool) -> None:
    policies = {policy["name"]: policy for policy in Model.load(name).describe()["policies"]}
    assert ("unit" in [setting["name"] for setting in policies["wait-k"]["settings"]]) is offered
    assert ("unit={unit}" in policies["wait-k"]["spec"]) is offered

"""Policies that count words: a word is read whole, proposed and decided on whole, and written whole; all shortcuts stay exact."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bethink.engine import Engine
from bethink.errors import UsageError
from bethink.export import write
from bethink.model.config import ModelConfig
from bethink.policy import Action, parse
from bethink.serve.models import Model
from bethink.stream import LONGEST_WORD, Stream
from bethink.text import EOS, SentencePieces, leaves_word
from bethink.trace import Step
from bethink.translator import Translator
from tests import naive
from tests.fake import FakeBackend
from tests.models import SMALL, random_model
from tests.test_engine import interleaved, outcome, words

SPECS = [
    "wait-k:1,unit=word",
    "wait-k:2,1.5,unit=word",
    "adaptive:0.9,0.2,4,unit=word",
    "weigh:k=1,r=3,rate=1.2,rho=0.9,unit=word",
    "weigh:k=1,r=3,rate=1.2,rho=0.9,care=0.6,unit=word",
    "pe:k=1,rho=0.7,r=2,unit=word",
    "pe:k=2,rho=0.9,r=1,unit=word",
]
# Ids 3, 6 and 9 leave a word open, 7 is a sign that attaches to the word before it.
VOCABULARY: Any = SimpleNamespace(
    marks_ends=True, closes_word=lambda token: token == EOS or token % 3 != 0, attaches=lambda token: token == 7
)
# The same ids where only the beginning of words is marked: 3, 6 and 9 continue a word.
BEGINNINGS: Any = SimpleNamespace(
    marks_ends=False, opens_word=lambda token: token % 3 != 0 and token != 7, attaches=lambda token: token == 7
)
VOCABULARIES = {"ends": VOCABULARY, "beginnings": BEGINNINGS}


def alone(
    backend: FakeBackend, spec: str, source: list[list[int]], *, marks: str = "ends", speculate: bool = True
) -> list[Step]:
    engine = Engine(backend, speculate=speculate)
    stream = engine.open(parse(spec), VOCABULARIES[marks])
    for word in source:
        engine.feed(stream, word)
    engine.close(stream)
    engine.run()
    assert stream.done
    return stream.take()


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SPECS), words, st.integers(0, 10**6), st.sampled_from(list(VOCABULARIES)))
def test_streaming_is_naive_recomputation(spec: str, source: list[list[int]], seed: int, marks: str) -> None:
    backend = FakeBackend(seed, leaving=lambda token: leaves_word(BEGINNINGS, token))
    expected = naive.translate_by_word(
        parse(spec),
        source,
        lambda x, y, g: backend.row(x[: g[-1]], list(zip(y, g, strict=True))),
        VOCABULARIES[marks],
        LONGEST_WORD,
    )
    steps = alone(backend, spec, source, marks=marks)
    assert outcome(steps) == expected
    assert alone(backend, spec, source, marks=marks, speculate=False) == steps, "guessing leaves no trace"
    assert not backend.sources


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SPECS), words, st.integers(0, 10**6))
def test_no_token_continues_a_word_that_was_complete(spec: str, source: list[list[int]], seed: int) -> None:
    backend = FakeBackend(seed, leaving=lambda token: leaves_word(BEGINNINGS, token))
    written = [step for step in alone(backend, spec, source, marks="beginnings") if step.action is Action.WRITE]
    for before, step in itertools.pairwise(written):
        assert leaves_word(BEGINNINGS, step.token) or not before.complete
        if step.read != before.read and step.reason.code not in ("source_complete", "word_begun", "length_limit"):
            assert before.complete or leaves_word(BEGINNINGS, step.token)


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
        stream._count_word(begins, [token])
        assert stream.written == complete


def test_who_cannot_count_words_says_so() -> None:
    with pytest.raises(UsageError, match="counts words, but this stream was opened without a vocabulary"):
        Stream(parse("wait-k:1,unit=word"), 0)


def test_the_unit_is_part_of_the_text_form_where_it_is_not_the_token() -> None:
    assert str(parse("wait-k:3,unit=word")) == "wait-k:k=3,rate=1.0,unit=word"
    assert str(parse("wait-k:3,unit=token")) == "wait-k:k=3,rate=1.0"


@pytest.fixture(scope="module")
def beginnings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, not trained, whose vocabulary marks only the beginning of words."""
    pieces = SentencePieces.load(Path(__file__).parent / "vocabularies" / "word-initial.spm")
    config = ModelConfig(len(pieces), len(pieces), **SMALL, norm="pre", judge=8)
    to = tmp_path_factory.mktemp("beginnings") / "model"
    words = {"source": pieces, "target": pieces}
    return write(
        random_model(config, seed=1), words, to, name="beginnings", policy="wait-k:3", about={"precision": "int8"}
    )


def test_who_cannot_tell_where_a_word_ends_refuses_to_count_words(
    monkeypatch: pytest.MonkeyPatch, beginnings: Path
) -> None:
    """The graphs of an older version do not say which tokens leave the word before them as it is."""
    translator = Translator(beginnings)
    monkeypatch.setattr(translator.backend, "parts_words", False)
    with pytest.raises(UsageError, match="made by an older version of bethink; use unit=token or export the model"):
        translator.served("weigh:k=3,unit=word")
    model = Model.load(str(beginnings))
    monkeypatch.setattr(model.translator.backend, "parts_words", False)
    policies = {policy["name"]: policy for policy in model.describe()["policies"]}
    assert "unit" not in [setting["name"] for setting in policies["wait-k"]["settings"]]


@pytest.mark.parametrize("name", ["toy", "de-en"])
def test_the_unit_is_offered_where_the_model_can_count_words(name: str) -> None:
    policies = {policy["name"]: policy for policy in Model.load(name).describe()["policies"]}
    assert "unit" in [setting["name"] for setting in policies["wait-k"]["settings"]]
    assert "unit={unit}" in policies["wait-k"]["spec"]


def test_each_word_is_shown_with_its_last_token(beginnings: Path) -> None:
    """Where only the beginning of words is marked, a word is all the same shown before the next one is begun."""
    translator = Translator(beginnings)
    line = "Der Ausschuss hat gestern beschlossen, den Vorschlag der Kommission abzulehnen, weil er zu teuer ist."
    (translation,) = translator.translate_many([line], "wait-k:2,unit=word")
    seen = ""
    for step in translation.writes:
        seen += step.text
        if step.reason.code == "source_complete":
            break
        if step.complete:
            assert seen == translator.target.decode([each.token for each in translation.writes[: step.written]])
    assert any(step.complete for step in translation.writes)
    assert translation.text == translator.target.decode([step.token for step in translation.writes])

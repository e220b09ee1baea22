"""Glossaries: what a file may say, and how terms are found in a text that comes word by word."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bethink import AsyncTranslator
from bethink.backend import Row
from bethink.cli.words import tell
from bethink.errors import DataError, ModelError
from bethink.policy import Action, parse
from bethink.serve.models import Model
from bethink.serve.protocol import Refusal
from bethink.text import EOS, Boundary, Copier, Segmenter, SentencePieces, Word, Words
from bethink.text.clean import LINE_END
from bethink.text.glossary import MOST_TERMS, Glossary, TermFinder
from bethink.trace import ResumePoint, Step, shown
from bethink.translator import Translator
from tests.fake import FakeBackend

GLOSSARY = Glossary(
    {
        "Wärmepumpe*": "heat pump",
        "künstliche Intelligenz": "AI",
        "künstliche": "man-made",
        "Deutsche Bahn": "Deutsche Bahn",
        "IT": "IT",
        "a b c": "x",
        "a b": "y",
    }
)


def found(text: str, glossary: Glossary = GLOSSARY) -> list[str]:
    *words, end = TermFinder(glossary).joined([*text.split(), LINE_END])
    assert end == LINE_END
    return words


@pytest.mark.parametrize(
    ("term", "translation"),
    [
        ("Wärmepumpe", "heat pump"),
        ("Wärmepumpen", "heat pump"),
        ("WÄRMEPUMPE", "heat pump"),
        ("wärme", None),
        ("Künstliche Intelligenz", "AI"),
        ("IT", "IT"),
        ("it", None),
        ("Bahn", None),
    ],
)
def test_case_does_not_matter_but_in_capitals(term: str, translation: str | None) -> None:
    assert GLOSSARY.translation(term) == translation


def test_words_of_a_term_wait_for_each_other() -> None:
    assert found("die künstliche Intelligenz, sagt er") == ["die", "künstliche Intelligenz,", "sagt", "er"]
    assert found("die künstliche Blume") == ["die", "künstliche", "Blume"]
    assert found("a b c a b d a") == ["a b c", "a b", "d", "a"]  # the longest term
    finder = TermFinder(GLOSSARY)
    assert [*finder.joined(["(Deutsche"])] == []
    assert not finder.settled
    assert [*finder.joined(["Bahn)"])] == ["(Deutsche Bahn)"]
    assert finder.settled


@given(
    st.lists(st.sampled_from(["a", "b", "c", "d"])),
    st.sets(st.sampled_from(["a b", "a b c", "b c", "c a", "d", "b b a"])),
)
def test_no_word_is_lost_or_moved(words: list[str], terms: set[str]) -> None:
    glossary = Glossary(dict.fromkeys(terms, "x"))
    joined = found(" ".join(words), glossary)
    assert " ".join(joined).split() == words
    assert all(len(each.split()) == 1 or each in terms for each in joined)


def test_files(tmp_path: Path) -> None:
    lines, table = tmp_path / "terms.tsv", tmp_path / "terms.toml"
    lines.write_text("# names\n\nWärmepumpe*\theat pump\nDeutsche  Bahn\tDeutsche Bahn\n", encoding="utf-8")
    table.write_text('# names\n"Wärmepumpe*" = "heat pump"\n"Deutsche Bahn" = "Deutsche Bahn"\n', encoding="utf-8")
    for path in (lines, table):
        glossary = Glossary.load(path)
        assert glossary.translation("Wärmepumpen") == "heat pump"
        assert glossary.translation("Deutsche Bahn") == "Deutsche Bahn"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.tsv", "Haus house\n", "line 1 .* is 'Haus house'; expected lines with a term, a tab"),
        ("a.tsv", "# x\nHaus\thouse\thome\n", "line 2"),
        ("a.tsv", "Haus\thouse\nHaus\thome\n", "line 2 .* has 'Haus' a second time"),
        ("a.tsv", "Haus\thouse\nhaus\thome\n", "twice, as 'house' and as 'home'"),
        ("a.tsv", "...\tdots\n", "expected words on both sides"),
        ("a.tsv", f"{'x' * 200}\ty\n", "at most 100 characters and 5 words"),
        ("a.tsv", "a b c d e f\ty\n", "at most 100 characters and 5 words"),
        ("a.toml", "Haus = [", "is not TOML"),
        ("a.toml", "Haus = 3", "as 3; expected text"),
    ],
)
def test_what_is_no_glossary_is_told(tmp_path: Path, name: str, text: str, told: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=told):
        Glossary.load(path)


def test_a_glossary_is_bounded() -> None:
    with pytest.raises(DataError, match="1,001 terms; expected at most 1,000"):
        Glossary({f"term{n}": "x" for n in range(MOST_TERMS + 1)})


# in a translation

PIECES = SentencePieces.load(Path(__file__).parent / "vocabularies" / "word-initial.spm")
COPIER = Copier(PIECES, PIECES, ("de", "en"))
TERMS = Glossary(
    {"Wärmepumpe*": "heat pump", "künstliche Intelligenz": "AI", "neue Wärmepumpe": "new one", "EU": "Union"}
)
WORDS = ["die", "neue", "Wärmepumpe,", "Wärmepumpen.", "künstliche", "Intelligenz", "(EU)", "EU.", "Haus", "80331"]
texts = st.lists(st.sampled_from([*WORDS, *[" "] * len(WORDS), "\n"]), max_size=40).map("".join)


def events(text: str, size: int, glossary: Glossary | None) -> list[Word | Boundary]:
    segmenter = Segmenter(PIECES, copier=COPIER.with_glossary(glossary) if glossary else COPIER)
    found = [event for begin in range(0, len(text), size) for event in segmenter.feed(text[begin : begin + size])]
    return found + segmenter.finish()


class Parrot(FakeBackend):
    """Writes what it reads."""

    def row(self, source: Sequence[int], history: Sequence[tuple[int, int]]) -> Row:
        place = len(history) - 1
        candidate = source[place] if place < len(source) else EOS
        return Row(candidate, 0.5, np.zeros(len(source), np.float32), 0.1 * (1 + place % 10))


def parrot() -> Translator:
    return Translator.of(Parrot(), PIECES, PIECES, name="parrot", policy=parse("wait-k:1"))


def steps(text: str, glossary: Glossary | None = TERMS) -> list[Step]:
    session = parrot().session(glossary=glossary)
    return session.feed(text) + session.finish()


@given(texts, st.integers(1, 9))
def test_terms_are_found_however_the_text_is_cut(text: str, size: int) -> None:
    assert events(text, size, TERMS) == events(text, max(len(text), 1), TERMS)


@given(texts)
def test_without_a_matching_term_a_glossary_changes_nothing(text: str) -> None:
    others = Glossary({"Lieferkettengesetz": "Supply Chain Act", "neue Mitte": "new centre"})
    found = events(text, max(len(text), 1), others)
    assert found == events(text, max(len(text), 1), None)


def test_the_term_is_written_where_the_model_writes_its_stand_in() -> None:
    assert shown(steps("Die Wärmepumpen laufen.")) == "Die heat pump laufen."
    assert shown(steps("Die künstliche Intelligenz, sagt er.")) == "Die AI, sagt er."
    assert shown(steps("Ja. künstliche Intelligenz hilft.")) == "Ja. AI hilft."
    assert shown(steps("wärmepumpe ist da.")) == "Heat pump ist da."  # at the beginning of a sentence
    assert shown(steps("Die Wärmepumpen laufen.", None)) == "Die Wärmepumpen laufen."


def test_the_record_says_that_it_was_a_term() -> None:
    taken = steps("Die Wärmepumpe läuft in 80331 Köln.")
    read = [step for step in taken if step.action is Action.READ and step.copied]
    assert [(step.text, step.copied, step.term) for step in read] == [
        ("Wärmepumpe", "heat pump", True),
        ("80331", "80331", False),
    ]
    written = [step for step in taken if step.action is Action.WRITE and step.copied]
    assert [(step.copied, step.term) for step in written] == [("heat pump", True), ("80331", False)]
    told = {word.text: word.reason.code for word in tell(PIECES, taken)}
    assert (told["heat pump"], told["80331"]) == ("term", "copied")
    assert all(Step.from_dict(step.to_dict()).term == step.term for step in taken)


async def both(model: Model) -> list[str]:
    """What two speakers get who share an engine, one of them with a glossary."""
    async with model.live:
        sessions = [
            model.session(parse("wait-k:1"), ResumePoint("wait-k:1"), "", terms) for terms in ({"Haus": "home"}, None)
        ]
        for session in sessions:
            await session.feed("Das Haus steht.")
            await session.finish()
        return [shown([step async for step in session]) for session in sessions]


def test_a_glossary_belongs_to_one_speaker() -> None:
    translator = parrot()
    model = Model("parrot", translator, AsyncTranslator(translator))
    assert asyncio.run(both(model)) == ["Das home steht.", "Das Haus steht."]


def test_a_client_whose_glossary_cannot_be_used_is_refused() -> None:
    translator = parrot()
    model = Model("parrot", translator, AsyncTranslator(translator))
    with pytest.raises(Refusal, match="expected words on both sides") as refused:
        model.session(parse("wait-k:1"), ResumePoint("wait-k:1"), "", {"...": "x"})
    assert refused.value.code == "invalid"


def test_a_model_without_stand_ins_says_so() -> None:
    toy = Translator.of(FakeBackend(), Words(["a"]), Words(["a"]), name="toy", policy=parse("wait-k:1"))
    with pytest.raises(ModelError, match="toy cannot use a glossary"):
        toy.session(glossary=TERMS)


def test_text_carries_the_least_stability_of_its_early_tokens() -> None:
    """Ten tokens have the stabilities 0.1, 0.2, … 1.0, again and again."""
    taken = [step for step in steps("Das Haus steht noch.", None) if step.action is Action.WRITE]
    pieces = [step for step in taken if not step.end]
    early = {n: step.stability for n, step in enumerate(pieces) if step.reason.code != "source_complete"}
    assert early
    place = 0
    for step in (step for step in taken if step.text):
        tokens = 0
        while PIECES.decode([each.token for each in pieces[place : place + tokens]]) != step.text.strip():
            tokens += 1
        own = [early[n] for n in range(place, place + tokens) if n in early]
        assert step.text_stability == (min(own) if own else None)
        place += tokens
    assert place == len(pieces)


def test_numbers_and_names_are_noticed_with_the_word() -> None:
    translator = parrot()
    translator.about["source"] = "de"
    session = translator.session()
    taken = session.feed("Gestern kam Wowereit mit 12 Leuten. Dann ") + session.finish()
    noticed = {step.text: step.notice for step in taken if step.notice}
    assert noticed == {"Wowereit": "name", "12": "number"}

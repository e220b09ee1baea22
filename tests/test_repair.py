"""Corrections: found where the meaning was lost and only there, added at the end of the sentence, and without any effect on the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bethink import Translator
from bethink.client.resume import cut
from bethink.engine import Engine
from bethink.errors import UsageError
from bethink.policy import Action, parse
from bethink.text import SentencePieces
from bethink.text.repair import Repair
from bethink.trace import Step, shown
from tests.fake import FakeBackend

REPAIR = Repair.of("de", "en")
DENIED = "Der Ausschuss hat beschlossen, die Steuern in diesem Jahr nicht zu erhöhen."


@pytest.mark.parametrize(
    ("source", "said", "whole", "correction"),
    [
        (
            DENIED,
            "It has decided to raise taxes.",
            "It has decided not to raise taxes.",
            "It has decided not to raise taxes.",
        ),
        (DENIED, "It has decided to raise taxes.", "It will raise taxes.", None),  # the whole sentence is no better
        (DENIED, "It has decided not to raise taxes.", "It will not raise taxes.", None),
        (
            DENIED,
            "It raises not only taxes.",
            "It will not raise taxes.",
            None,
        ),  # who knows what the early "not" denies
        ("Das ist gut.", "That is not good.", "That is good.", "That is good."),
        ("Es sind 160 Orte.", "There are 1600 places.", "There are 160 places.", "There are 160 places."),
        ("Es sind 160 Orte.", "There are 1600 places.", "There are many.", None),
        ("Das ist kaum gut.", "That is not good.", "That is hardly good.", None),  # not sure what is denied
    ],
)
def test_a_correction_needs_source_and_whole_to_agree(
    source: str, said: str, whole: str, correction: str | None
) -> None:
    assert REPAIR is not None
    found = REPAIR.correction(source, said, whole) if REPAIR.doubtful(source, said) else None
    assert found == correction


def test_a_translation_that_the_model_is_not_sure_of_corrects_nothing() -> None:
    assert REPAIR is not None
    found = [REPAIR.correction("Das ist gut.", "That is not good.", "That is good.", sure) for sure in (0.5, 0.6)]
    assert found == [None, "That is good."]


def test_of_a_long_sentence_only_the_clause_is_said_again() -> None:
    assert REPAIR is not None
    long = "After the committee had talked for two days about the budget of the year and all its parts, it did not raise taxes, he said."
    assert REPAIR.correction(DENIED, "It did raise taxes.", long) == "it did not raise taxes"


class Doubting:
    """Doubts every second sentence and corrects it with the whole translation."""

    def doubtful(self, source: str, said: str) -> bool:
        return len(source) % 2 == 0

    def correction(self, source: str, said: str, whole: str, sure: float) -> str | None:
        assert 0 < sure <= 1
        return whole


def translator(pieces: SentencePieces, repair: Any = None) -> Translator:
    made = Translator.of(FakeBackend(3, ending=0.1), pieces, pieces, name="fake", policy=parse("wait-k:1"))
    made.repair = repair
    return made


texts = st.lists(st.sampled_from(["haus", "baum.", "grün", "über,", "der", "\n", "80331"]), max_size=30).map(" ".join)


@given(texts, st.integers(1, 20))
def test_nothing_else_changes_and_it_does_not_matter_how_text_is_cut(
    pieces: SentencePieces, text: str, size: int
) -> None:
    model = translator(pieces, Doubting())
    plain = list(translator(pieces).stream([text]))
    found = list(model.stream([text[begin : begin + size] for begin in range(0, len(text), size)]))
    assert [replace(step, correction=None) for step in found] == plain
    assert [step.n for step in found] == [step.n for step in plain]
    assert shown(found) == shown(plain)
    for step in found:
        if step.correction is not None:
            assert step.end
            assert step.action is Action.WRITE
        if step.resume is not None:
            again = model.session(step.resume.policy, begin=step.resume)
            assert again.feed(cut(text, step.resume.offset)) + again.finish() == found[step.resume.step :]


def test_a_correction_is_what_the_model_says_to_the_whole_sentence(pieces: SentencePieces) -> None:
    model = translator(pieces, Doubting())
    steps = list(model.stream(["haus über der baum"]))
    assert steps[-1].correction == shown(list(translator(pieces).stream(["haus über der baum"], "offline")))
    assert Step.from_dict(steps[-1].to_dict()).correction == steps[-1].correction
    assert model.translate("haus über der baum").endswith(f" — correction: {steps[-1].correction}")


def test_speakers_on_one_engine_get_their_own_corrections(pieces: SentencePieces) -> None:
    spoken = ["haus über der baum. der grün baum.", "der baum über.\nhaus", "grün der der der. haus baum baum."]
    model = translator(pieces, Doubting())
    engine = Engine(model.backend)
    sessions = [model.session(engine=engine) for _ in spoken]
    found: list[list[Step]] = [[] for _ in spoken]
    for text, session in zip(spoken, sessions, strict=True):
        session.feed(text)
        session.finish()
    while engine.round() or any(session.moving for session in sessions):
        for steps, session in zip(found, sessions, strict=True):
            steps.extend(session.collect())
    assert found == [list(model.stream([text])) for text in spoken]
    assert any(step.correction for steps in found for step in steps)


def test_it_is_off_unless_asked_for_and_needs_languages_that_are_known() -> None:
    models = Path(__file__).parents[1] / "models"
    assert Translator(models / "de-en", threads=1).repair is None
    assert Translator(models / "de-en", threads=1, repair=True).repair == REPAIR
    with pytest.raises(UsageError, match="there are de and en"):
        Translator(models / "toy", repair=True)

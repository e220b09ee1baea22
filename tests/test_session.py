"""A session finds the same sentences however text is cut, knows where each could be begun anew, and when each word arrived."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bethink.client.resume import cut
from bethink.engine import Engine
from bethink.policy import Action, parse
from bethink.session import Session
from bethink.text import Boundary, Segmenter, SentencePieces, Word
from bethink.trace import ResumePoint, Step, shown
from bethink.translator import Translator
from tests.fake import FakeBackend

WORDS = ["te", "riki", "nakoru", ".", "!", ",", "😀", "<i>te</i>", "<font", 'color="red">ne', "<b", "a&nbsp;b"]
WORDS += ["&amp;lt;", "z.B.", "\u200b", "好。", "好。」"]
LONG = ["x" * 300, "ab" * 700, "\u200b" * 1500, " " * 1500, "\u200b " * 800]
texts = st.lists(st.sampled_from([*WORDS, *LONG, " ", " ", " ", " ", "\n", "  "]), max_size=60).map("".join)


def translator(pieces: SentencePieces) -> Translator:
    policy = parse("wait-k:1")
    return Translator.of(FakeBackend(3, ending=0.5), pieces, pieces, name="fake", policy=policy)


def events(pieces: SentencePieces, text: str) -> list[Word | Boundary]:
    segmenter = Segmenter(pieces)
    return segmenter.feed(text) + segmenter.finish()


def steps(session: Session, text: str, size: int | None = None) -> list[Step]:
    size = size or len(text) or 1
    found = [session.feed(text[begin : begin + size]) for begin in range(0, len(text), size)]
    return [*itertools.chain(*found), *session.finish()]


def ends(found: list[Step]) -> list[Step]:
    return [step for step in found if step.end and step.action is Action.WRITE]


@settings(max_examples=100)
@given(texts, st.integers(1, 40))
def test_every_sentence_is_found_however_the_text_is_cut(pieces: SentencePieces, text: str, size: int) -> None:
    found = steps(translator(pieces).session(), text, size)
    words, expected = 0, []
    for event in events(pieces, text):
        words += isinstance(event, Word)
        if isinstance(event, Boundary):
            expected.append(words)
            words = 0
    assert [step.heard for step in ends(found)] == expected
    assert [step.n for step in found] == list(range(len(found)))
    assert all(step.sentence == n for n, step in enumerate(ends(found)))


@settings(max_examples=100)
@given(texts, st.integers(1, 40))
def test_a_session_that_begins_at_a_resume_point_takes_the_same_steps(
    pieces: SentencePieces, text: str, size: int
) -> None:
    model = translator(pieces)
    found = steps(model.session(), text, size)
    for step in ends(found):
        if step.resume is not None:
            again = steps(model.session(step.resume.policy, begin=step.resume), cut(text, step.resume.offset))
            rest = found[step.resume.step :]
            assert again == rest
            assert [one.n for one in again] == [one.n for one in rest]


def test_plain_sentences_can_all_be_begun_anew(pieces: SentencePieces) -> None:
    found = ends(steps(translator(pieces).session(), "te riki . ne ruru ! wa\nhomuran " + "te " * 300, 13))
    assert len(found) >= 5  # the last one is too long and is cut, before a word
    assert all(step.resume is not None for step in found)


def test_a_sentence_cut_before_a_word_can_be_begun_anew_at_that_word(pieces: SentencePieces) -> None:
    """The word that did not fit ends one sentence and begins the next, which may have another policy."""
    session = translator(pieces).session("wait-k:1")
    short = "haus " * (118 // len(pieces.encode("haus")))
    found = session.feed(short)
    session.policy = parse("wait-k:2")
    found += session.feed("xyzxyzxyzxyz ")
    (end,) = ends(found)
    assert end.resume == ResumePoint("wait-k:k=2,rate=1.0", 1, found.index(end) + 1, len(short), spoken=True)
    assert not [step for step in found if step.sentence == 1 and step.action is Action.WRITE and step.read < 2]


def test_a_policy_holds_for_sentences_whose_first_word_is_completed_after_it(pieces: SentencePieces) -> None:
    session = translator(pieces).session("wait-k:1")
    found: list[Step] = []
    for item in ("te riki", 2, " . n", 3, "e", 4, " ruru ", 5, ". wa", 6):
        if isinstance(item, int):
            session.policy = parse(f"wait-k:{item}")
        else:
            found += session.feed(item)
    found += session.finish()
    points = [step.resume for step in ends(found)]
    assert [str(point.policy)[:10] for point in points if point] == ["wait-k:k=2", "wait-k:k=5", "wait-k:k=6"]
    firsts = [next(s for s in found if s.sentence == n and s.action is Action.WRITE).read for n in range(2)]
    length = len([*pieces.encode("ne"), *pieces.encode("ruru"), *pieces.encode(".")]) + 1  # with the end
    assert firsts == [1, min(4, length)]


def test_a_policy_changes_by_place_also_where_text_waits(pieces: SentencePieces) -> None:
    """Everything is fed before the first sentence is translated."""
    model = translator(pieces)
    session = model.session(engine=(engine := Engine(model.backend)))
    for k in range(1, 6):
        session.policy = parse(f"wait-k:{k}")
        session.feed("der die das nicht sehr schön . ")
    assert session.policy == parse("wait-k:5")
    found: list[Step] = []
    while not session.resting:
        engine.run()
        found += session.collect()
    firsts = [next(s for s in found if s.sentence == n and s.action is Action.WRITE).read for n in range(5)]
    assert firsts == [1, 2, 3, 4, 5]


def test_reads_say_how_far_the_text_was_read(pieces: SentencePieces) -> None:
    found = steps(translator(pieces).session(begin=ResumePoint("wait-k:1", offset=100)), "der 😀 die . ")
    assert [step.offset for step in found if step.text and step.action is Action.READ] == [104, 107, 111, 113]
    assert all((step.offset is None) == (step.action is Action.WRITE) for step in found)


def test_steps_say_when_they_were_made_and_how_long_ago_their_word_arrived(pieces: SentencePieces) -> None:
    session = translator(pieces).session("wait-k:1")
    began = time.monotonic()
    first = session.feed("der die ", at=began - 5.0)
    time.sleep(0.02)
    last = session.finish()
    times = [step.at for step in first + last if step.at is not None]
    assert len(times) == len(first + last)
    assert times == sorted(times)
    assert all(step.lag is not None and 5000 <= step.lag < 65_000 for step in first)
    assert all(step.lag is not None and step.lag < 5000 for step in last)


def test_a_text_that_goes_on_has_a_space_before_it(pieces: SentencePieces) -> None:
    model = translator(pieces)
    text = "der die das . nicht sehr schön ."
    whole = steps(model.session(), text)
    point = ends(whole)[0].resume
    assert point is not None
    rest = steps(model.session(begin=point), text[point.offset :])
    assert point.spoken
    assert shown(rest) == shown([step for step in whole if step.sentence == 1])
    assert shown(rest).startswith(" ")


@pytest.mark.parametrize("nothing", [" ", "\u200b ", "\u200b", "<b> ", " \u200b"])
def test_text_that_completes_nothing_is_not_kept(pieces: SentencePieces, nothing: str) -> None:
    session = translator(pieces).session()
    for _ in range(20):
        assert session.feed(nothing * 1000) == []
        assert session.backlog == 0
    assert [step.text for step in session.feed(" der . ") if step.action is Action.READ and step.text][-2:] == [
        "der",
        ".",
    ]

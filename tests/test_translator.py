"""Text in, text out: however it is cut, whoever shares the engine, and whatever stands in it."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bethink import toy
from bethink.engine import Engine
from bethink.errors import DataError, ModelError, UsageError
from bethink.evaluate.latency import erased
from bethink.policy import Action, parse
from bethink.session import Session
from bethink.text import Words
from bethink.trace import Step, Translation, shown
from bethink.translator import Translator
from tests.fake import FakeBackend

WORDS = Words([*"abcdefghij", "end.", ".", ","])
POLICIES = ["offline", "wait-k:2", "adaptive:0.9,0.2,5", "pe:k=1,rho=0.8,r=2", "pe-flip:2,0.3"]
TEXT = "a b c end. e f, g end. h i j\n\na b .\nc d e f g h i j a b c d"


def translator(seed: int = 0, **settings: Any) -> Translator:
    return Translator.of(FakeBackend(seed, **settings), WORDS, WORDS, name="fake", policy=parse("wait-k:2"))


def cut(text: str, chance: random.Random) -> list[str]:
    edges = sorted(chance.randrange(len(text) + 1) for _ in range(chance.randrange(12)))
    return [text[a:b] for a, b in zip([0, *edges], [*edges, len(text)], strict=True)]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(POLICIES), st.integers(0, 10**6))
def test_any_chunking_gives_the_same_steps(policy: str, seed: int) -> None:
    model = translator(seed)
    whole = list(model.stream([TEXT], policy))
    assert list(model.stream(cut(TEXT, random.Random(seed)), policy)) == whole
    assert list(model.stream(list(TEXT), policy)) == whole


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_shown_is_changed(policy: str) -> None:
    steps = list(translator(3).stream(list(TEXT), policy))
    assert erased([shown(steps[:n]) for n in range(len(steps) + 1)]) == 0
    assert shown(steps) == translator(3).translate(TEXT, policy)


def test_sentences_are_numbered_and_a_space_apart() -> None:
    steps = list(translator(5, ending=0.3).stream([TEXT]))
    assert list(dict.fromkeys(step.sentence for step in steps)) == list(range(5))
    texts = [shown([step for step in steps if step.sentence == n]) for n in range(5)]
    assert not texts[0].startswith(" ")
    assert all(text.startswith(" ") for text in texts[1:] if text)
    assert "  " not in shown(steps)


def test_a_finished_session_starts_afresh() -> None:
    session = translator(1).session("wait-k:1")
    first = session.feed("a b c") + session.finish()
    again = session.feed("a b c") + session.finish()
    assert shown(first) == shown(again)
    assert {step.sentence for step in again} == {1}


def test_a_text_fed_before_the_last_one_was_collected_stands_by_itself() -> None:
    """It gets no space before it, however late its reader comes."""
    session = translator(1).session("wait-k:1", engine=(engine := Engine(FakeBackend(1))))
    session.feed("a b c")
    session.finish()
    session.feed("a b c")
    session.finish()
    steps: list[Step] = []
    while not session.resting:
        engine.run()
        steps += session.collect()
    texts = [shown([step for step in steps if step.sentence == n]) for n in range(2)]
    assert texts[0] == texts[1] == translator(1).translate("a b c", "wait-k:1")


def test_words_are_said_before_the_sentence_is_over() -> None:
    session = translator(2, ending=0.0).session("wait-k:1")
    steps = session.feed("a b c ")
    assert [step.text for step in steps if step.action is Action.READ] == ["a", "b", "c"]
    assert shown(steps)


def test_the_policy_can_change_between_sentences() -> None:
    session = translator(4).session("wait-k:1")
    session.feed("a b end. ")
    session.policy = parse("offline")
    steps = session.feed("c d e f")
    assert not any(step.action is Action.WRITE for step in steps)


def test_sessions_on_one_engine_are_each_alone() -> None:
    chance = random.Random(8)
    model = translator(8)
    expected = [list(model.stream([TEXT], policy)) for policy in POLICIES]
    engine = Engine(model.backend, batch=3)
    sessions: list[Session] = [model.session(policy, engine=engine) for policy in POLICIES]
    found: list[list[Step]] = [[] for _ in sessions]
    pending = [cut(TEXT, chance) for _ in sessions]
    while any(pending):
        n = chance.choice([n for n, chunks in enumerate(pending) if chunks])
        sessions[n].feed(pending[n].pop(0))
        engine.round()
        found[n] += sessions[n].collect()
    for session in sessions:
        session.finish()
    moving = True
    while moving:
        engine.run()
        new = [session.collect() for session in sessions]
        found = [old + more for old, more in zip(found, new, strict=True)]
        moving = any(new)
    assert found == expected


def test_many_lines_come_in_order_and_are_each_alone() -> None:
    model, lines = translator(6), ["a b c", "", "d end. e f", "g", "   ", "h i j a b c d e"]
    for policy in POLICIES:
        together = list(model.translate_many(lines, policy, batch=2))
        assert together == [next(model.translate_many([line], policy)) for line in lines]
        assert [" ".join(each.source) for each in together] == ["a b c", "", "d end. e f", "g", "", "h i j a b c d e"]
        assert together[1] == Translation((), (), ())
        assert [each.source_tokens for each in together] == [4, 1, 5, 2, 1, 9]


def test_long_lines_come_first_where_order_does_not_matter() -> None:
    model, lines = translator(6), ["a b c", "", "d end. e f", "g", "   ", "h i j a b c d e"]
    for policy in POLICIES:
        found = list(model.as_completed(lines, policy, batch=1))
        assert [n for n, _ in found] == [5, 2, 0, 3, 1, 4]
        assert [dict(found)[n] for n in range(len(lines))] == list(model.translate_many(lines, policy))


def test_an_abandoned_session_leaves_nothing_behind() -> None:
    model = translator(7)
    session = model.session("wait-k:3")
    session.feed("a b c d e")
    session.abandon()
    assert not model.backend.sources  # type: ignore[attr-defined]
    assert session.collect() == []
    session.feed("g")  # half a word
    session.abandon()
    steps = session.feed("a b c d e ")
    assert [step.text for step in steps if step.action is Action.READ] == list("abcde")
    assert {step.sentence for step in steps} == {1}


def test_lines_given_up_half_way_give_their_slots_back() -> None:
    model = translator(7)
    first = model.translate_many(["a b", "c d e f g h i j", "a b c d e"], "wait-k:1", batch=3)
    next(first)
    first.close()
    assert not model.backend.sources  # type: ignore[attr-defined]


def test_no_more_lines_than_asked_for_are_open_at_a_time() -> None:
    model = translator(2)
    list(model.translate_many(["a b c d e f g h"] * 9, "wait-k:1", batch=4))
    backend = model.backend
    assert isinstance(backend, FakeBackend)
    assert max(backend.calls) == 4
    assert backend.most == 4


def test_tidy_punctuation_belongs_to_the_word_before_it() -> None:
    steps = list(translator(5, ending=0.2, vocabulary=16).stream(["a b c d e f g h i j a b c"], "wait-k:2"))
    found = Translation.of(steps)
    assert len(found.delays) == len(found.text.split())
    assert any(word[-1] in ".," for word in found.text.split())


def test_delays_count_words_heard_when_a_word_is_shown() -> None:
    """With whole words as tokens and wait-2 the first word comes after two words, the next after three."""
    found = next(translator(9, ending=0.0).translate_many(["a b c d e"], "wait-k:2"))
    assert found.delays[:4] == [2, 3, 4, 5]
    assert found.path[:5] == [2, 3, 4, 5, 6]


def test_what_cannot_be_done_is_said() -> None:
    model = translator()
    with pytest.raises(DataError, match="line 2 has 1500 tokens"):
        list(model.translate_many(["a", "b " * 1500]))
    model.backend.capsules = False  # type: ignore[misc]
    with pytest.raises(ModelError, match="no capsules"):
        model.session("pe")


def test_what_is_no_text_is_said() -> None:
    model = translator()
    for wrong, kind in ((None, "NoneType"), (b"a b", "bytes"), (["a b"], "list")):
        with pytest.raises(UsageError, match=f"the text must be a str, not {kind}"):
            model.translate(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="line 2 must be a str, not NoneType"):
        next(model.translate_many(["a", None]))  # type: ignore[list-item]


@pytest.mark.parametrize("many", [Translator.translate_many, Translator.as_completed])
def test_one_text_is_not_many(many: Any) -> None:
    """It would be translated letter by letter."""
    for wrong, kind in (("a b", "one str"), (None, "NoneType"), (3, "int")):
        with pytest.raises(UsageError, match=f"a list or another sequence of str, not {kind}"):
            next(many(translator(), wrong))


def test_a_policy_for_every_call() -> None:
    text = next(toy.sentences(1, seed=3)).source
    model, waiting = Translator("toy", threads=1), Translator("toy", policy="wait-k:7", threads=1)
    assert str(waiting.policy) == "wait-k:k=7,rate=1.0"
    assert list(waiting.stream([text])) == list(model.stream([text], "wait-k:7"))
    assert list(waiting.stream([text], "wait-k:1")) == list(model.stream([text], "wait-k:1"))
    with pytest.raises(UsageError, match="Did you mean 'wait-k'"):
        Translator("toy", policy="waitk")


@pytest.mark.parametrize("policy", [*POLICIES, "weigh:k=1"])
def test_steps_carry_degrees_and_gain_as_they_say(policy: str) -> None:
    """Gains where the policy weighs by them and there is more to hear; degrees with every word of a model with capsules."""
    line = "a b c d e f g h"
    translation = next(translator(11, ending=0.2).translate_many([line], policy))
    for step in translation.steps:
        writes, more = step.action is Action.WRITE, step.read < translation.source_tokens
        assert len(step.degrees) == (step.read if writes else 0)
        assert len(step.gain) == (step.read if writes and more and policy.startswith("pe") else 0)
    assert any(step.read < translation.source_tokens for step in translation.writes) == (policy != "offline")


def test_a_reader_who_stops_half_way_gives_the_slot_back() -> None:
    model = translator(7)
    steps = model.stream(["a b c d e ", "f g h"], "wait-k:1")
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert not model.backend.sources  # type: ignore[attr-defined]


def test_a_session_says_where_it_stands() -> None:
    session = translator(3).session("wait-k:1", engine=(engine := Engine(FakeBackend(3))))
    assert session.resting
    assert session.feed("a b end. c d ") == []  # whoever drives the engine collects the steps
    assert session.backlog == 2  # the second sentence waits for the first
    assert session.moving
    engine.run()
    assert not session.moving
    session.collect()
    assert session.backlog == 0
    assert not session.resting


def test_threads_share_a_translator() -> None:
    """Eight threads at once on the bundled model, each with a policy of its own, get what they get alone."""
    model = Translator("toy", threads=1)
    policies = [
        "wait-k:1",
        "wait-k:5",
        "pe:k=1,rho=0.2,r=4",
        "pe:k=3,rho=0.3,r=2",
        "pe-flip:3",
        "adaptive",
        "offline",
        None,
    ]
    texts = [pair.source for pair in toy.sentences(len(policies), seed=3)]
    check_threads(model, texts, policies)


def test_threads_share_a_model_in_torch() -> None:
    """There sums may differ in their last digits from thread to thread, but no stream may see another's caches."""
    from bethink.backend.torch import TorchBackend
    from tests.models import BUILDS, random_model

    words = Words([*"abcdefghij", "end.", ".", ",", "k", "l", "m", "n"])
    model = Translator.of(
        TorchBackend(random_model(BUILDS["post"])), words, words, name="random", policy=parse("wait-k:2")
    )
    texts = ["a b c", "j i h g", "b"]
    alone = [model.translate(text) for text in texts]
    with ThreadPoolExecutor(len(texts)) as pool:
        assert list(pool.map(model.translate, texts)) == alone


def check_threads(model: Translator, texts: list[str], policies: list[str | None]) -> None:
    alone = [list(model.stream([text], policy)) for text, policy in zip(texts, policies, strict=True)]
    start = Barrier(len(texts))

    def work(n: int) -> tuple[list[Step], str]:
        start.wait()
        return list(model.stream(list(texts[n]), policies[n])), model.translate(texts[n], policies[n])

    with ThreadPoolExecutor(len(texts)) as pool:
        assert list(pool.map(work, range(len(texts)))) == [(steps, shown(steps)) for steps in alone]

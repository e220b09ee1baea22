"""The engine thread driven by hand, round by round: whose turn it is, and how much may pile up."""

from __future__ import annotations

import math
import time

import pytest

from bethink.engine import Engine
from bethink.engine_thread import (
    DEBT,
    INBOX,
    OUTBOX,
    PIECE,
    SPARE,
    SPEECH,
    UTTERANCE,
    Cost,
    EngineThread,
    Mailbox,
    Pace,
)
from bethink.policy import Action, parse
from bethink.text import Words
from bethink.translator import Translator
from tests.fake import FakeBackend

WORDS = Words([*"abcdefghij", "end."])
LONGEST = 3 * 120 + 51  # steps that one sentence can have


class Desk:
    """An engine thread that was never started."""

    def __init__(self, batch: int, ending: float = 0.1) -> None:
        self.model = Translator.of(FakeBackend(1, ending=ending), WORDS, WORDS, name="fake", policy=parse("wait-k:1"))
        self.told: list[Mailbox] = []
        self.thread = EngineThread(Engine(self.model.backend, batch=batch), self.told.extend)

    def mailbox(self, *pieces: str | None, owner: str = "", pasted: int = 0) -> Mailbox:
        mailbox = Mailbox(self.model.session(engine=self.thread.engine), lambda: None, owner)
        mailbox.pace.add(pasted, time.monotonic())
        self.thread.open(mailbox)
        mailbox.inbox.extend((0.0, piece) for piece in pieces)
        self.thread.note(mailbox)
        return mailbox

    @property
    def idle(self) -> bool:
        return not (self.thread._active or self.thread.engine.ready or self.thread._notes.qsize())

    def round(self) -> None:
        if not self.idle:  # otherwise the thread would wait for news
            assert self.thread.listen()
            self.thread.round()


def writes(mailbox: Mailbox) -> int:
    return sum(step is not None and step.action is Action.WRITE for step in mailbox.outbox)


@pytest.mark.parametrize(("batch", "others"), [(1, 5), (4, 5), (4, 30), (64, 30)])
def test_a_newcomer_is_answered_after_one_turn_of_everyone(batch: int, others: int) -> None:
    desk = Desk(batch)
    hogs = [desk.mailbox(*["a b c d e f g h i j "] * INBOX) for _ in range(others)]
    for _ in range(20):
        desk.round()
    newcomer = desk.mailbox("a b ")
    turn = -(-(others + 1) // batch)
    for _ in range(turn):
        desk.round()
    assert writes(newcomer)
    assert max(desk.model.backend.calls) <= batch  # type: ignore[attr-defined]
    assert all(writes(hog) for hog in hogs)


def test_what_nobody_takes_is_bounded_and_costs_nothing() -> None:
    desk = Desk(8, ending=0.0)  # which says much about little
    mailbox = desk.mailbox(*["a b c d end. " * 9] * INBOX)
    for _ in range(3000):
        desk.round()
    for _ in range(20):  # a speaker who goes on talking changes nothing
        desk.thread.note(mailbox)
        desk.round()
    assert desk.idle
    assert OUTBOX <= len(mailbox.outbox) <= OUTBOX + LONGEST
    assert mailbox.session.backlog <= PIECE
    waiting = len(mailbox.inbox)
    assert waiting > INBOX // 2
    mailbox.outbox.clear()
    desk.thread.note(mailbox)
    desk.round()
    assert mailbox.outbox  # it goes on where it stopped
    assert mailbox in desk.told


def test_a_line_that_breaks_breaks_alone() -> None:
    desk = Desk(8)
    good, bad = desk.mailbox("a b c d "), desk.mailbox("a b c d ")
    bad.session.policy = "not a policy"  # type: ignore[assignment]
    for _ in range(5):
        desk.round()
    assert bad.error is not None
    assert "open another session" in str(bad.error)
    assert bad in desk.told
    assert good.error is None
    assert writes(good)
    assert desk.thread.counters().sessions == 1
    bad.inbox.append((0.0, "more "))  # text that nobody will translate
    desk.thread.note(bad)
    for _ in range(60):
        desk.round()
    assert not bad.busy
    assert desk.idle  # so the thread rests


def test_what_words_cost_tells_how_many_speakers_there_can_be() -> None:
    cost = Cost()
    for _ in range(100):
        cost.add(seconds=0.005, rows=3, words=1)  # few at a time are dear, which says nothing about many
    assert cost.capacity == math.inf
    for _ in range(1000):
        cost.add(seconds=0.040, rows=60, words=20)  # 2 ms a word: 500 words a second
    assert cost.capacity == pytest.approx(200, rel=0.01)
    for _ in range(1000):
        cost.add(seconds=0.080, rows=60, words=20)  # something else needs the machine
    assert cost.capacity == pytest.approx(100, rel=0.01)


def test_what_words_cost_among_few_says_nothing_about_a_crowd() -> None:
    cost = Cost()
    for _ in range(20):
        cost.add(seconds=0.040, rows=60, words=20)  # 2 ms a word, 3 rows
    for _ in range(1000):
        cost.add(seconds=0.005, rows=9, words=1)  # two of three rows are guesses
    assert cost.capacity == pytest.approx(200)
    for _ in range(20):
        cost.add(seconds=0.040, rows=60, words=20)
    assert cost.capacity == pytest.approx(200)


def test_what_words_cost_is_not_known_before_there_were_any() -> None:
    cost = Cost()
    for _ in range(20):
        cost.add(seconds=0.040, rows=60, words=0)
    assert cost.capacity == math.inf


def test_a_hub_knows_what_it_can_do() -> None:
    desk = Desk(64)
    mailboxes = [desk.mailbox("a b c d e f g h i j ") for _ in range(30)]
    assert desk.thread.counters().capacity == math.inf
    while not desk.idle:
        desk.round()
    assert all(mailbox.outbox for mailbox in mailboxes)
    assert 1 < desk.thread.counters().capacity < math.inf


def test_telling_the_hub_often_is_telling_it_once() -> None:
    desk = Desk(8)
    mailbox = desk.mailbox("a ")
    for _ in range(1000):
        desk.thread.note(mailbox)
    assert desk.thread._notes.qsize() == 1


# pasted text and speech

LONG = ["a b c d e f g h i j "] * INBOX


def test_pasted_text_makes_way_for_speech() -> None:
    desk = Desk(64)
    for _ in range(40):
        desk.mailbox(*LONG, pasted=DEBT)
    for _ in range(20):
        desk.round()
    assert desk.thread.engine.width == 40  # nobody speaks
    speaker = desk.mailbox("a b ")
    desk.round()
    assert writes(speaker)
    assert desk.thread.engine.width == SPARE + 1
    desk.round()
    assert desk.thread.engine.width <= SPARE + 1  # the speaker may go on at any moment


def test_owners_of_pasted_text_take_turns() -> None:
    desk = Desk(64)
    many = [desk.mailbox(*LONG, owner="many", pasted=DEBT) for _ in range(40)]
    few = [desk.mailbox(*LONG, owner="few", pasted=DEBT) for _ in range(4)]
    for n in range(60):
        if n % 10 == 0:
            desk.mailbox("a b ", owner="speaker")
        desk.round()
        for mailbox in many + few:
            mailbox.outbox.clear()
            desk.thread.note(mailbox)
    shares = [sum(mailbox.session._step for mailbox in own) for own in (many, few)]
    assert shares[0] < 1.5 * shares[1]
    assert all(mailbox.session._step for mailbox in many)  # nobody is forgotten


def test_a_pace_forgives() -> None:
    pace = Pace()
    pace.add(UTTERANCE, 100.0)
    assert pace.is_speech(100.0)
    pace.add(1, 100.0)
    assert not pace.is_speech(100.0)
    assert pace.is_speech(100.1)
    pace.add(10**7, 101.0)
    assert not pace.is_speech(101.0 + (DEBT - 1) / SPEECH)
    assert pace.is_speech(101.0 + DEBT / SPEECH)


def test_pasted_text_and_words_of_many_pieces_do_not_lower_the_capacity() -> None:
    """Whoever sends them could otherwise shut the server for others."""
    desk = Desk(64)
    for _ in range(40):
        desk.mailbox(*LONG, pasted=DEBT)
    for _ in range(20):
        desk.round()
    assert desk.thread.counters().capacity == math.inf
    garbage, speech = Cost(), Cost()
    garbage.add(1.0, 64, 3, 60)  # words of twenty pieces each
    speech.add(1.0, 64, 30, 45)
    assert garbage.capacity == speech.capacity

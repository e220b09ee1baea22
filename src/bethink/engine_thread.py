"""One thread that drives one engine for many sessions, each of which has a mailbox.

Whoever holds a mailbox, an event loop for example, puts text in and takes steps out; the thread does the rest and says which mailboxes
to look at again. All of it is bounded: text that does not fit waits outside, and a session whose steps nobody takes is left alone
once its sentence in flight is written.
"""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bethink.engine import Engine
from bethink.errors import BethinkError, ModelError
from bethink.policy import Action, Policy
from bethink.session import Session
from bethink.trace import Step

PIECE = 128  # characters: the most that is taken from one mailbox in one round
INBOX = 64  # pieces of text that may wait in a mailbox
OUTBOX = 128  # steps that may wait in a mailbox before its session has to wait
PACE = 2.5  # words per second: a speaker
WIDE = 16  # decoder rows in a round from which on a row costs about the same, however many there are


@dataclass(frozen=True, slots=True)
class Counters:
    """What an engine thread is doing and has done, for metrics."""

    sessions: int  # open now
    ready: int  # streams that can move now
    queued: int  # pieces of text that wait in mailboxes
    batch: int  # streams in the last round
    rounds: int  # batched model calls, since the start like all below
    rows: int  # decoder positions computed
    written: int  # target tokens, ends of sentences included
    failures: int  # times the model failed, each of which ended the sessions then open
    capacity: float = math.inf  # speakers that the engine could follow all the time, by what words have cost lately


class Cost:
    """What a source word costs: an exponential average over wide rounds, with a half-life of 70 of them.

    Narrow rounds are left out: a row costs more there, and some rows are guesses, so they say nothing about many speakers.
    """

    def __init__(self) -> None:
        self._seconds = self._words = 0.0

    def add(self, seconds: float, rows: int, words: int) -> None:
        if rows >= WIDE:
            self._seconds, self._words = 0.99 * self._seconds + seconds, 0.99 * self._words + words

    @property
    def capacity(self) -> float:
        """Speakers that would take all of the engine's time; infinite before anything is known."""
        return self._words / (PACE * self._seconds) if self._words and self._seconds else math.inf


class Mailbox:
    """One session's two queues. Its holder appends to `inbox` and pops from `outbox`; the rest is the engine thread's."""

    def __init__(self, session: Session, wake: Callable[[], None]) -> None:
        self.session = session
        self.wake = wake  # called by the holder's side when there are steps, room or an error
        self.inbox: deque[tuple[float, str | Policy | None]] = deque()  # when it arrived, and what; None ends the text
        self.outbox: deque[Step | None] = deque()  # None ends the steps of a text
        self.closed = False  # set by the holder: everything in flight is to be dropped
        self.error: Exception | None = None
        self.noted = False  # whether the thread has been told to look here
        self.news = False  # whether the holder should look here
        self._finishing = False

    @property
    def full(self) -> bool:
        return len(self.outbox) >= OUTBOX

    @property
    def busy(self) -> bool:
        """Whether the next round can do something for this session."""
        return not self.full and (self.session.moving or bool(self.inbox))

    def feed(self) -> None:
        """Feed the session, as much as one round may; not while a sentence waits for the one before it."""
        taken = 0
        stops = self.closed or self.full or self._finishing
        while self.inbox and taken < PIECE and not (stops or self.session.backlog):
            at, item = self.inbox.popleft()
            if item is None:
                self.session.finish(at)
                self._finishing = stops = True
            elif isinstance(item, str):
                self.session.feed(item, at)
                taken += len(item)
            else:
                self.session.policy = item
            self.news = True

    def collect(self) -> list[Step]:
        """Give out the new steps, if there is room for them."""
        if self.full:
            return []
        steps = self.session.collect()
        self.outbox.extend(steps)
        self.news = self.news or bool(steps)
        if self._finishing and self.session.resting:
            self._finishing = False
            self.outbox.append(None)
            self.news = True
        return steps


class EngineThread(threading.Thread):
    """Start it, open mailboxes, and `stop` it; mailboxes may be opened and closed at any time."""

    def __init__(self, engine: Engine, wake: Callable[[Sequence[Mailbox]], None]) -> None:
        """`wake` is called in this thread with mailboxes whose holders should look again."""
        super().__init__(name="bethink", daemon=True)
        self.engine = engine
        self._wake = wake
        self._mailboxes: set[Mailbox] = set()
        self._notes: queue.SimpleQueue[Mailbox | None] = queue.SimpleQueue()
        self._active: dict[Mailbox, None] = {}
        self._read = self._written = self._failures = 0
        self._cost = Cost()

    # for the holders

    def open(self, mailbox: Mailbox) -> None:
        self._mailboxes.add(mailbox)

    def close(self, mailbox: Mailbox) -> None:
        mailbox.closed = True
        self._mailboxes.discard(mailbox)
        self.note(mailbox)

    def note(self, mailbox: Mailbox) -> None:
        """The holder did something. Queued once, however often it is said before the thread looks."""
        if not mailbox.noted:
            mailbox.noted = True
            self._notes.put(mailbox)

    def stop(self) -> list[Mailbox]:
        """No more rounds after this one; the mailboxes that were still open."""
        left = list(self._mailboxes)
        for mailbox in left:
            self.close(mailbox)
        self._notes.put(None)
        return left

    def counters(self) -> Counters:
        mailboxes, engine = list(self._mailboxes), self.engine
        queued = sum(len(mailbox.inbox) for mailbox in mailboxes)
        done = (engine.width, engine.rounds, engine.rows, self._written, self._failures)
        return Counters(len(mailboxes), engine.ready, queued, *done, self._cost.capacity)

    # the thread

    def run(self) -> None:
        while self.listen():
            try:
                self.round()
            except Exception as error:  # noqa: BLE001 - whatever a model throws must reach those who wait for it
                self._fail(error)
        for mailbox in self._active:
            mailbox.session.abandon()

    def listen(self) -> bool:
        """Note which mailboxes have something new, waiting for one if there is nothing else to do; False at the end."""
        while True:
            try:
                mailbox = self._notes.get(block=not (self._active or self.engine.ready))
            except queue.Empty:
                return True
            if mailbox is None:
                return False
            mailbox.noted = False  # before its queues are looked at, so that nothing is missed
            self._active[mailbox] = None

    def round(self) -> None:
        """Feed all sessions, let the engine make one round, and give out the steps."""
        mailboxes = list(self._active)
        began, rows, read = time.monotonic(), self.engine.rows, self._read
        for mailbox in mailboxes:
            self._attend(mailbox, Mailbox.feed)
        self.engine.round()
        for mailbox in mailboxes:
            self._attend(mailbox, self._collect)
        self._tell([mailbox for mailbox in mailboxes if mailbox.news])
        self._cost.add(time.monotonic() - began, self.engine.rows - rows, self._read - read)
        for mailbox in mailboxes:
            if mailbox.closed or not mailbox.busy:
                self._active.pop(mailbox, None)
            if mailbox.closed:
                mailbox.session.abandon()

    def _collect(self, mailbox: Mailbox) -> None:
        for step in mailbox.collect():
            if step.action is Action.WRITE:
                self._written += 1
            elif step.text:
                self._read += 1

    def _tell(self, mailboxes: Sequence[Mailbox]) -> None:
        for mailbox in mailboxes:
            mailbox.news = False
        if mailboxes:
            self._wake(mailboxes)

    def _attend(self, mailbox: Mailbox, act: Callable[[Mailbox], None]) -> None:
        """What goes wrong with one session is that session's alone."""
        if mailbox.error is None:
            try:
                act(mailbox)
            except Exception as error:  # noqa: BLE001 - see above
                self._break(mailbox, error)

    def _fail(self, error: Exception) -> None:
        """The model failed in the middle of a round: no caches can be trusted any more, so every session ends."""
        self._failures += 1
        mailboxes = list(self._mailboxes | self._active.keys())
        for mailbox in mailboxes:
            self._break(mailbox, error)
        self._tell(mailboxes)

    def _break(self, mailbox: Mailbox, error: Exception) -> None:
        if not isinstance(error, BethinkError):
            told = ModelError(f"the model failed with {type(error).__name__}: {error}; open another session")
            told.__cause__ = error
            error = told
        mailbox.error, mailbox.news = error, True
        self._mailboxes.discard(mailbox)
        self._active.pop(mailbox, None)
        with contextlib.suppress(Exception):  # a broken model may not even close what it has open
            mailbox.session.abandon()

"""One thread that runs one engine for many sessions; each session has a mailbox.

The holder of a mailbox (an event loop, for example) puts text in and takes steps out. The thread runs the engine and reports which
mailboxes have news. Both queues of a mailbox are bounded: a holder waits while the inbox is full, and a session with a full outbox
pauses after its sentence in flight. Text that comes faster than speech (pasted text) makes way for speech.
"""

from __future__ import annotations

import contextlib
import itertools
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
from bethink.stream import Stream
from bethink.trace import Step, Tail

PIECE = 128  # characters taken from one mailbox in one round, at most
INBOX = 64  # pieces of text that may wait in a mailbox
OUTBOX = 128  # steps that may wait in a mailbox before its session pauses
PACE = 2.5  # words per second of a typical speaker
SPEECH = 60.0  # characters per second; nobody speaks faster
UTTERANCE = 1200  # characters that may come at once all the same, as when a client sends its open sentence again
DEBT = 10 * UTTERANCE  # characters; after that much too fast text, a stream counts as speech again 200 seconds later
SPARE = 4  # streams of pasted text in one round, while somebody speaks
PAUSE = 2.0  # seconds after which somebody who says nothing does not speak any more
TOKENS = 2  # source tokens in a word, at most, for the estimate of its cost
WIDE = 16  # decoder rows in a round; from here on a row costs about the same, however many there are


@dataclass(frozen=True, slots=True)
class Counters:
    """The state and the totals of an engine thread, for metrics."""

    sessions: int  # open now
    ready: int  # streams that can go on now
    queued: int  # pieces of text that wait in mailboxes
    batch: int  # streams in the last round
    rounds: int  # batched model calls since the start; the counts below are totals too
    rows: int  # decoder positions computed
    written: int  # target tokens, ends of sentences included
    failures: int  # times the model failed; each time all open sessions ended
    capacity: float = math.inf  # speakers that the engine could follow, estimated from the recent cost of words


class Cost:
    """What a source word of speech costs: an exponential average with a half-life of 70 rounds.

    Rounds with fewer than WIDE rows are ignored: a row costs more there and some rows are guesses, so they do not predict the cost
    with many speakers.
    """

    def __init__(self) -> None:
        self._seconds = self._words = 0.0

    def add(self, seconds: float, rows: int, words: int, tokens: int = 0) -> None:
        """Text whose words have very many tokens is counted by tokens; otherwise all words would seem expensive."""
        if rows >= WIDE:
            self._seconds = 0.99 * self._seconds + seconds
            self._words = 0.99 * self._words + max(words, tokens / TOKENS)

    @property
    def capacity(self) -> float:
        """The number of speakers that would use all of the engine's time; infinite before anything was measured."""
        return self._words / (PACE * self._seconds) if self._words and self._seconds else math.inf


class Pace:
    """Whether a text comes as fast as people speak at most: a bucket of characters that fills at that rate."""

    def __init__(self) -> None:
        self._left, self._then = float(UTTERANCE), 0.0

    def add(self, characters: int, now: float) -> None:
        self._left, self._then = max(self._at(now) - characters, float(-DEBT)), now

    def is_speech(self, now: float) -> bool:
        return self._at(now) >= 0

    def _at(self, now: float) -> float:
        return min(float(UTTERANCE), self._left + (now - self._then) * SPEECH)


class Mailbox:
    """The two queues of a session. The holder appends to `inbox` and pops from `outbox`; the engine thread does the rest."""

    def __init__(self, session: Session, wake: Callable[[], None], owner: str = "", *, tails: bool = False) -> None:
        """With `tails`, the outbox also gets what the model would write next, whenever that changes and the session rests."""
        self.session = session
        self.owner = owner  # those who paste take turns by owner
        self.pace = Pace()
        self.turn = 0  # the last round in which it moved while others were held back
        self.wake = wake  # called on the holder's side when there are steps, room for text, or an error
        self.inbox: deque[tuple[float, str | Policy | None]] = deque()  # when it arrived, and what; None ends the text
        self.outbox: deque[Step | Tail | None] = deque()  # None ends the steps of a text
        self.closed = False  # set by the holder: drop everything in flight
        self.error: Exception | None = None
        self.noted = False  # whether this mailbox is in the thread's queue
        self.news = False  # whether there is something new for the holder
        self._finishing = False
        self._tail = Tail(0, "") if tails else None  # the last one given

    @property
    def full(self) -> bool:
        return len(self.outbox) >= OUTBOX

    @property
    def busy(self) -> bool:
        """Whether the next round can do something for this session."""
        return self.error is None and not self.full and (self.session.moving or bool(self.inbox))

    def feed(self) -> None:
        """Feed the session what one round may take, unless a sentence waits for the one before it."""
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
        """Move new steps to the outbox, if there is room."""
        if self.full:
            return []
        steps = self.session.collect()
        self.outbox.extend(steps)
        self.news = self.news or bool(steps)
        self._give_tail(steps)
        if self._finishing and self.session.resting:
            self._finishing = False
            self.outbox.append(None)
            self.news = True
        return steps

    def _give_tail(self, steps: Sequence[Step]) -> None:
        """A tail is gone once text is shown or its sentence has ended, so only another one is given, or the same after that."""
        if self._tail is None:
            return
        if any(step.action is Action.WRITE and (step.text or step.end) for step in steps):
            self._tail = Tail(self._tail.sentence, "")
        if not self.session.moving and (tail := self.session.tail).text != self._tail.text:
            self._tail = tail
            self.outbox.append(tail)
            self.news = True


class EngineThread(threading.Thread):
    """`start` it, `open` and `close` mailboxes at any time, and `stop` it."""

    def __init__(self, engine: Engine, wake: Callable[[Sequence[Mailbox]], None]) -> None:
        """`wake` is called in this thread with the mailboxes that have news."""
        super().__init__(name="bethink", daemon=True)
        self.engine = engine
        self._wake = wake
        self._mailboxes: set[Mailbox] = set()
        self._notes: queue.SimpleQueue[Mailbox | None] = queue.SimpleQueue()
        self._active: dict[Mailbox, None] = {}
        self._read = self._tokens = self._written = self._failures = 0
        self._spoken = -math.inf  # when a speaker's stream moved last
        self._cost = Cost()

    # for the holders

    def open(self, mailbox: Mailbox) -> None:
        self._mailboxes.add(mailbox)

    def close(self, mailbox: Mailbox) -> None:
        mailbox.closed = True
        self._mailboxes.discard(mailbox)
        self.note(mailbox)

    def note(self, mailbox: Mailbox) -> None:
        """Tell the thread that the holder did something. Calls before the thread looks count once."""
        if not mailbox.noted:
            mailbox.noted = True
            self._notes.put(mailbox)

    def stop(self) -> list[Mailbox]:
        """End after this round; returns the mailboxes that were still open."""
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
            except Exception as error:  # noqa: BLE001 - any error of the model must reach those who wait
                self._fail(error)
        for mailbox in self._active:
            mailbox.session.abandon()

    def listen(self) -> bool:
        """Collect the mailboxes with news; wait for one if there is nothing else to do. False when the thread should end."""
        while True:
            try:
                mailbox = self._notes.get(block=not (self._active or self.engine.ready))
            except queue.Empty:
                return True
            if mailbox is None:
                return False
            mailbox.noted = False  # before its queues are read, so that no news is missed
            self._active[mailbox] = None

    def round(self) -> None:
        """Feed all sessions, run one round of the engine, and hand out the steps."""
        mailboxes = list(self._active)
        began, rows, read, tokens = time.monotonic(), self.engine.rows, self._read, self._tokens
        for mailbox in mailboxes:
            self._attend(mailbox, Mailbox.feed)
        moving = [(one, one.pace.is_speech(began)) for one in mailboxes if one.session.moving]
        pasting = [one for one, speech in moving if not speech]
        self.engine.round(self._hold(pasting, began, len(pasting) < len(moving)))
        for mailbox in mailboxes:
            self._attend(mailbox, self._collect)
        self._tell([mailbox for mailbox in mailboxes if mailbox.news])
        if not pasting:  # which costs what its sender likes
            seconds = time.monotonic() - began
            self._cost.add(seconds, self.engine.rows - rows, self._read - read, self._tokens - tokens)
        for mailbox in mailboxes:
            if mailbox.closed or not mailbox.busy:
                self._active.pop(mailbox, None)
            if mailbox.closed:
                mailbox.session.abandon()

    def _hold(self, pasting: Sequence[Mailbox], now: float, speech: bool) -> set[Stream]:
        """The streams of pasted text that must wait in this round: if somebody speaks, all but a few, chosen by owners in turn."""
        if speech:
            self._spoken = now
        if now - self._spoken > PAUSE or len(pasting) <= SPARE:
            return set()
        owners: dict[str, list[Mailbox]] = {}
        for mailbox in sorted(pasting, key=lambda one: one.turn):
            owners.setdefault(mailbox.owner, []).append(mailbox)
        served = sorted(owners.values(), key=lambda own: own[-1].turn)  # the owner served longest ago first
        turns = [one for layer in itertools.zip_longest(*served) for one in layer if one is not None]
        for mailbox in turns[:SPARE]:
            mailbox.turn = self.engine.rounds
        return {stream for mailbox in turns[SPARE:] if (stream := mailbox.session.stream)}

    def _collect(self, mailbox: Mailbox) -> None:
        for step in mailbox.collect():
            if step.action is Action.WRITE:
                self._written += 1
            else:
                self._tokens += 1
                self._read += bool(step.text)

    def _tell(self, mailboxes: Sequence[Mailbox]) -> None:
        for mailbox in mailboxes:
            mailbox.news = False
        if mailboxes:
            self._wake(mailboxes)

    def _attend(self, mailbox: Mailbox, act: Callable[[Mailbox], None]) -> None:
        """An error in one session ends only that session."""
        if mailbox.error is None:
            try:
                act(mailbox)
            except Exception as error:  # noqa: BLE001 - see above
                self._break(mailbox, error)

    def _fail(self, error: Exception) -> None:
        """The model failed in the middle of a round: its caches may be wrong, so every session ends."""
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
        with contextlib.suppress(Exception):  # after a failure, closing may fail too
            mailbox.session.abandon()

"""One thread that drives one engine for many speakers, each of whom has a line to it.

A line is two short queues. Whoever holds its outer end, an event loop for example, puts text in and takes steps out; the hub does
the rest and says which lines to look at again. All of it is bounded: text that does not fit waits outside, and a line whose steps
nobody takes is left alone once the sentence in flight is written.
"""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bethink.engine import Engine
from bethink.errors import BethinkError, ModelError
from bethink.policy import Action
from bethink.text import EOS
from bethink.trace import Step
from bethink.translator import Session

PIECE = 128  # characters: the most that is heard from one line in one round
INBOX = 64  # pieces that a speaker may be ahead of the engine
OUTBOX = 256  # steps that a reader may be behind before its stream waits
PACE = 2.5  # words per second: a speaker
WIDE = 16  # rows of a round from which on a row costs about the same, however many there are


@dataclass(frozen=True, slots=True)
class Counters:
    """What a hub is doing and has done, for metrics."""

    sessions: int  # open now
    ready: int  # streams that can move now
    queued: int  # pieces of text that were fed and not yet heard
    batch: int  # streams in the last round
    rounds: int  # batched model calls, since the start like all below
    rows: int  # decoder positions computed
    written: int  # target tokens, ends of sentences included
    failures: int  # times the model failed, each of which ended the sessions then open
    capacity: float = math.inf  # speakers that it could follow all the time, by what words have cost lately


class Effort:
    """What a word costs where there are many, from what rounds have cost lately."""

    def __init__(self) -> None:
        self._seconds = self._words = 0.0  # of wide rounds alone

    def feel(self, seconds: float, rows: int, words: int) -> None:
        """A round counts half of what the one 70 after it does: some seconds in a crowd.

        Narrow ones, whose rows are dear and some of them guesses, say what there is to spare, not what there is.
        """
        if rows >= WIDE:
            self._seconds, self._words = 0.99 * self._seconds + seconds, 0.99 * self._words + words

    @property
    def capacity(self) -> float:
        """Speakers that would take all of the engine's time; without end before anything is known."""
        return self._words / (PACE * self._seconds) if self._words and self._seconds else math.inf


class Line:
    """One speaker's connection. The outer end appends to `inbox` and pops from `outbox`; the rest is the hub's."""

    def __init__(self, session: Session, wake: Callable[[], None]) -> None:
        self.session = session
        self.wake = wake  # called at the outer end when there are steps, room or an error
        self.inbox: deque[tuple[float, str | None]] = deque()  # when it was fed, and what; None ends the text
        self.outbox: deque[Step | None] = deque()  # None ends the steps of a text
        self.closed = False  # set by the outer end: everything in flight is to be dropped
        self.error: Exception | None = None
        self.noted = False  # whether the hub has been told to look here
        self.news = False  # whether the outer end should look here
        self._opened = self._newest = time.monotonic()
        self._fed: deque[float] = deque()  # when each word and end was fed that was heard and not yet read
        self._finishing = False

    @property
    def full(self) -> bool:
        return len(self.outbox) >= OUTBOX

    @property
    def busy(self) -> bool:
        """Whether the next round can do something for this line."""
        return not self.full and (self.session.moving or bool(self.inbox))

    def hear(self) -> None:
        """Take in what was fed, as much as one round may; a sentence that waits for the one before it is enough."""
        heard = 0
        while self.inbox and heard < PIECE and not (self.full or self._finishing or self.session.backlog):
            at, text = self.inbox.popleft()
            completed = self.session.close() if text is None else self.session.push(text)
            self._fed.extend([at] * completed)
            self._finishing = text is None
            heard += len(text or "")
            self.news = True

    def speak(self) -> tuple[int, int]:
        """Give out what was done, if there is room for it; how many words were read and how many tokens written."""
        if self.full:
            return 0, 0
        steps = self.session.collect()
        now = time.monotonic()
        self.outbox.extend(self._timed(step, now) for step in steps)
        if self._finishing and self.session.resting:
            self._finishing = False
            self.outbox.append(None)
            self.news = True
        self.news = self.news or bool(steps)
        written = sum(step.action is Action.WRITE for step in steps)
        return sum(bool(step.text) and step.action is Action.READ for step in steps), written

    def drop(self) -> None:
        self.session.abandon()
        self._fed.clear()

    def _timed(self, step: Step, now: float) -> Step:
        if step.action is Action.READ and (step.text or step.token == EOS):
            self._newest = self._fed.popleft()
        return replace(step, at=now - self._opened, waited=now - self._newest)


class Hub(threading.Thread):
    """Start it, open lines, and `stop` it; lines may be opened and closed at any time."""

    def __init__(self, engine: Engine, wake: Callable[[Sequence[Line]], None]) -> None:
        """`wake` is called in the hub's thread with lines whose outer ends should look again."""
        super().__init__(name="bethink", daemon=True)
        self.engine = engine
        self._wake = wake
        self._lines: set[Line] = set()
        self._notes: queue.SimpleQueue[Line | None] = queue.SimpleQueue()
        self._active: dict[Line, None] = {}
        self._read = self._written = self._failures = 0
        self._effort = Effort()

    # for the outer ends

    def open(self, line: Line) -> None:
        self._lines.add(line)

    def close(self, line: Line) -> None:
        line.closed = True
        self._lines.discard(line)
        self.note(line)

    def note(self, line: Line) -> None:
        """Something happened at the outer end. Said once, however often it is said before the hub looks."""
        if not line.noted:
            line.noted = True
            self._notes.put(line)

    def stop(self) -> list[Line]:
        """No more rounds after this one; the lines that were still open."""
        left = list(self._lines)
        for line in left:
            self.close(line)
        self._notes.put(None)
        return left

    def counters(self) -> Counters:
        lines, engine = list(self._lines), self.engine
        queued = sum(len(line.inbox) for line in lines)
        done = (engine.width, engine.rounds, engine.rows, self._written, self._failures)
        return Counters(len(lines), engine.ready, queued, *done, self._effort.capacity)

    # the thread

    def run(self) -> None:
        while self.listen():
            try:
                self.round()
            except Exception as error:  # noqa: BLE001 - whatever a model throws must reach those who wait for it
                self._fail(error)
        for line in self._active:
            line.drop()

    def listen(self) -> bool:
        """Hear which lines have something new, waiting for one if there is nothing else to do; False at the end."""
        while True:
            try:
                line = self._notes.get(block=not (self._active or self.engine.ready))
            except queue.Empty:
                return True
            if line is None:
                return False
            line.noted = False  # before its queues are looked at, so that nothing is missed
            self._active[line] = None

    def round(self) -> None:
        """Hear everyone, let the engine make one round, and say what was done."""
        lines = list(self._active)
        began, rows, read = time.monotonic(), self.engine.rows, self._read
        for line in lines:
            self._attend(line, self._hear)
        self.engine.round()
        for line in lines:
            self._attend(line, self._speak)
        self._tell([line for line in lines if line.news])
        self._effort.feel(time.monotonic() - began, self.engine.rows - rows, self._read - read)
        for line in lines:
            if line.closed or not line.busy:
                self._active.pop(line, None)
            if line.closed:
                line.drop()

    def _hear(self, line: Line) -> None:
        if not line.closed:
            line.hear()

    def _speak(self, line: Line) -> None:
        read, written = line.speak()
        self._read += read
        self._written += written

    def _tell(self, lines: Sequence[Line]) -> None:
        for line in lines:
            line.news = False
        if lines:
            self._wake(lines)

    def _attend(self, line: Line, act: Callable[[Line], None]) -> None:
        """What goes wrong with one line is that line's alone."""
        if line.error is None:
            try:
                act(line)
            except Exception as error:  # noqa: BLE001 - see above
                self._break(line, error)

    def _fail(self, error: Exception) -> None:
        """The model failed in the middle of a round: nobody's caches can be trusted any more, so everyone starts anew."""
        self._failures += 1
        lines = list(self._lines | self._active.keys())
        for line in lines:
            self._break(line, error)
        self._tell(lines)

    def _break(self, line: Line, error: Exception) -> None:
        if not isinstance(error, BethinkError):
            told = ModelError(f"the model failed with {type(error).__name__}: {error}; open another session")
            told.__cause__ = error
            error = told
        line.error, line.news = error, True
        self._lines.discard(line)
        self._active.pop(line, None)
        with contextlib.suppress(Exception):  # a broken model may not even close what it has open
            line.drop()

"""Keeps account of a client's text: which of it belongs to which sentence, under which policy, and since when it is here.

The translator finds sentences by itself; the ledger finds the same ones a moment earlier, by the same rules, for three reasons.
It hands over one sentence at a time, so that what waits for a slow reader is raw text and nothing else. It lets policies take
effect by their place in the text, never by time. And it knows from which place a fresh start would find the same sentences.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from bethink.policy import Policy
from bethink.serve.protocol import units
from bethink.text import Boundary, Segmenter, Vocabulary, Word
from bethink.text.clean import LONGEST_WORD

PIECES = re.compile(rf"\S{{1,{LONGEST_WORD}}}|\s+")
ENOUGH = 1024  # units of text after which no more is gathered, whether they complete something or not


@dataclass(frozen=True, slots=True)
class Arrival:
    """When the text that completed a word or a sentence came in, and where in the client's text that was."""

    at: float
    offset: int


@dataclass(slots=True)
class Entry:
    """One sentence: its words, its end, and how what follows it can be begun anew."""

    words: list[Arrival] = field(default_factory=list)
    end: Arrival | None = None
    policy: Policy | None = None  # in force where it ends
    restart: int | None = None  # the place from which a fresh start finds the rest; None where none is exact


@dataclass(frozen=True, slots=True)
class Portion:
    """Text to hand over, once `finished` sentences are finished and `begun` have begun."""

    text: str
    begins: bool  # whether a sentence begins in it
    policy: Policy  # for the sentences that do
    finished: int = 0
    begun: int = 0
    final: bool = False  # whether the whole text ends with it


@dataclass(frozen=True, slots=True)
class _Heard:
    pieces: Iterator[re.Match[str]]
    at: float


@dataclass(frozen=True, slots=True)
class _Changed:
    policy: Policy


@dataclass(frozen=True, slots=True)
class _Ended:
    at: float


class Ledger:
    """Sentences count from 0 on this connection, positions from `offset` on."""

    def __init__(self, vocabulary: Vocabulary, policy: Policy, offset: int = 0) -> None:
        self.entries: dict[int, Entry] = {}  # sentences that have begun and are not yet settled
        self.begun = 0  # sentences that have begun in what was taken
        self._segmenter = Segmenter(vocabulary)
        self._policy = policy
        self._offset = offset
        self._settled = offset  # the last place where no word was half heard
        self._silent = True  # whether nothing was completed since then
        self._waiting: deque[_Heard | _Changed | _Ended] = deque()
        self._open = False  # whether a sentence has begun and not ended
        self._held: list[str] = []  # text that has completed nothing yet
        self._taken = offset  # the place where it begins
        self._next: Portion | None = None

    def hear(self, text: str, at: float) -> None:
        self._waiting.append(_Heard(PIECES.finditer(text), at))

    def change(self, policy: Policy) -> None:
        """For the sentences whose first word is completed after this place."""
        if self._waiting and isinstance(self._waiting[-1], _Changed):  # no word was completed under that one
            self._waiting.pop()
        self._waiting.append(_Changed(policy))

    def finish(self, at: float) -> None:
        self._waiting.append(_Ended(at))

    def settle(self, sentence: int) -> Entry:
        """A sentence is finished: what is known of it, which is then forgotten."""
        return self.entries.pop(sentence)

    def take(self) -> Portion | None:
        """The next text to hand over, as much of one sentence as is here, up to a length; None if it completes nothing yet."""
        portion, self._next = self._next, None
        while portion is None or (self._open and not (portion.begun or portion.final or len(portion.text) >= ENOUGH)):
            if (unit := self._unit()) is None:
                break
            if portion is None:
                portion = unit
            elif unit.begun:  # it begins a sentence whose policy may be another
                self._next = unit
                break
            else:
                portion = replace(portion, text=portion.text + unit.text, final=unit.final)
        return portion

    def _unit(self) -> Portion | None:
        """The least text that completes something, or is long enough."""
        while self._waiting:
            item = self._waiting[0]
            if isinstance(item, _Changed):
                self._policy = item.policy
            elif isinstance(item, _Ended):
                self._waiting.popleft()
                return self._portion(self._segmenter.finish(), item.at, final=True)
            elif (match := next(item.pieces, None)) is not None:
                self._held.append(match[0])
                self._offset += units(match[0])
                events = self._segmenter.feed(match[0])
                if events or self._offset - self._taken >= ENOUGH:
                    return self._portion(events, item.at)
                self._mark_settled()
                continue
            self._waiting.popleft()
        return None

    def _portion(self, events: Sequence[Word | Boundary], at: float, *, final: bool = False) -> Portion:
        was_open, before = self._open, self.begun
        for number, event in enumerate(events):
            self._record(event, at, first=number == 0, last=number == len(events) - 1)
        self._silent = self._silent and not events
        self._mark_settled()
        text = "".join(self._held)
        self._held.clear()
        self._taken = self._offset
        if self.begun == before:
            return Portion(text, False, self._policy, final=final)
        finished, begun = (0, before) if was_open else (before, 0)
        return Portion(text, True, self._policy, finished, begun, final)

    def _record(self, event: Word | Boundary, at: float, *, first: bool, last: bool) -> None:
        here = Arrival(at, self._offset)
        if isinstance(event, Word):
            if not self._open:
                self._open = True
                self.entries[self.begun] = Entry()
                self.begun += 1
            self.entries[self.begun - 1].words.append(here)
            return
        entry = self.entries[self.begun - 1]
        entry.end, entry.policy = here, self._policy
        self._open = False
        if last and self._segmenter.settled:
            entry.restart = self._offset
        elif first and self._silent:  # cut before the word at hand, which then begins the next sentence
            entry.restart = self._settled

    def _mark_settled(self) -> None:
        if self._segmenter.settled:
            self._settled, self._silent = self._offset, True

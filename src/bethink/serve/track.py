"""The text of a room in one language: numbered, append-only, and serialised once for all listeners."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bethink.policy import Action
from bethink.serve.protocol import Refusal, Resume, dumps
from bethink.text.captions import pieces
from bethink.trace import ResumePoint, Step, correction_text

TOGETHER = 16  # sentences in one piece of what a late listener gets


class Word(NamedTuple):
    """Text that was shown at once, with the space before it."""

    n: int  # the number of its step
    at: int  # milliseconds since the room was opened
    text: str
    stability: float | None = None  # if a part of it was written before the source was complete


@dataclass(slots=True)
class Sentence:
    number: int
    words: list[Word] = field(default_factory=list)
    last: int = -1  # the number of the last step that changed it
    ended: bool = False
    correction: tuple[int, str] | None = None  # what puts it right, if need be, and when that came
    _frame: tuple[tuple[int, int], bytes] = ((-1, -1), b"")  # the last one made, and for what

    @property
    def added(self) -> list[str]:
        """The correction as plain words."""
        return pieces(correction_text(self.correction[1])) if self.correction else []

    @property
    def count(self) -> int:
        """Its words, those of the correction included."""
        return len(self.words) + len(self.added)

    def event(self, after: int) -> bytes:
        """The words after step `after` as a server-sent event. Listeners who ask for the same get the same bytes."""
        begin = bisect_right(self.words, after, key=lambda word: word.n)
        if self._frame[0] != (begin, self.last):
            words = self.words[begin:]
            data: dict[str, Any] = {"sentence": self.number, "words": [[word.at, word.text] for word in words]}
            if any(word.stability is not None for word in words):
                data["stability"] = [word.stability for word in words]
            data |= {"end": True} if self.ended else {}
            data |= {"correction": self.correction} if self.correction else {}
            self._frame = ((begin, self.last), f"id: {self.last}\ndata: {dumps(data)}\n\n".encode())
        return self._frame[1]


class Track:
    """What one model makes of the speaker's text. A stream writes it; `record` gets every change before any listener does.

    Its numbers are those of the stream's steps. A stream that begins anew counts on from the one before, so a number is never
    used twice. A stream that resumes takes its last steps again; those that the track has are checked and left out.
    """

    def __init__(self, model: str, record: Callable[[dict[str, Any]], None]) -> None:
        self.model = model
        self.sentences: list[Sentence] = []
        self.final = False  # the speaker has ended the text
        self.closed = False
        self._record = record
        self._began = 0  # the first step of the stream that writes
        self._next = 0  # the step after the last one recorded
        self._check = ""  # the checksum of that last one
        self._writer: object = None
        self._new: list[Word] = []  # words of the open sentence that are not recorded yet
        self._last: dict[str, Any] = {}  # what is to be recorded with them
        self._news = asyncio.Event()

    # the stream that writes

    def begin(self, policy: str, writer: object) -> ResumePoint:
        """Where a new stream begins: after everything that stands here. It replaces a stream before it."""
        self._writer, self._new, self._last = writer, [], {}
        if self.sentences and not self.sentences[-1].ended:  # of a stream that never came back
            self._keep({"s": self.sentences[-1].number, "w": [], "n": self._next, "c": "", "e": 1})
        if self._next:
            self._keep({"b": self._next})
        number = self.sentences[-1].number + 1 if self.sentences else 0
        return ResumePoint(policy, number, self._next, 0, any(sentence.words for sentence in self.sentences))

    def resume(self, resume: Resume, writer: object) -> None:
        """Let a stream go on that lost its connection, unless another has begun since."""
        if not self._began <= resume.point.step <= self._next:
            told = "another stream speaks in this room now, or the room has lost its text; start again without 'resume'"
            raise Refusal("replaced", told)
        self._writer, self._new, self._last = writer, [], {}

    def add(self, step: Step, check: int, now: int) -> None:
        """Take a step of the stream; a word is shown with the next `publish`."""
        n, sign = step.n or 0, f"{check:08x}"
        if n == self._next - 1 and self._check and sign != self._check:
            raise Refusal("diverged", "this server translates the open sentence differently; start without 'resume'")
        if n < self._next or step.action is Action.READ or not (step.text or step.end):
            return
        at = max(now, self.sentences[-1].words[-1].at) if self.sentences and self.sentences[-1].words else now
        if step.text:
            stability = None if step.text_stability is None else round(step.text_stability, 4)
            self._new.append(Word(n, at, step.text, stability))
        self._last = {"s": step.sentence, "n": n, "c": sign} | ({"e": 1} if step.end else {})
        self._last |= {"k": [at, step.correction]} if step.correction else {}
        if step.end:
            self._settle()

    def publish(self, writer: object) -> None:
        """Record the words that were added and show them."""
        if writer is not self._writer:
            raise Refusal("replaced", "another stream speaks in this room now")
        self._settle()
        self._wake()

    def finish(self) -> None:
        if not self.final:
            self._keep({"f": 1})
            self._wake()

    def _settle(self) -> None:
        if self._new or self._last.get("e"):
            words, self._new = [list(word[:3] if word.stability is None else word) for word in self._new], []
            self._keep({"w": words} | self._last)
        self._last = {}

    def _keep(self, entry: dict[str, Any]) -> None:
        self._record(entry)
        self.restore(entry)

    def restore(self, entry: dict[str, Any]) -> None:
        """Apply an entry of the log; anything else raises KeyError, TypeError or ValueError."""
        if "f" in entry:
            self.final = True
            return
        self.final = False
        if "b" in entry:
            self._began = int(entry["b"])
            return
        number, n, words = int(entry["s"]), int(entry["n"]), [Word(*word) for word in entry["w"]]
        if n < self._next or not all(isinstance(word.text, str) for word in words):
            raise ValueError("an entry is out of order")
        if not self.sentences or self.sentences[-1].number != number:
            self.sentences.append(Sentence(number))
        sentence = self.sentences[-1]
        sentence.words += words
        sentence.last, sentence.ended = n, "e" in entry
        if "k" in entry:
            at, correction = entry["k"]
            sentence.correction = int(at), str(correction)
        self._next, self._check = n + 1, str(entry["c"])

    # listeners

    def since(self, after: int) -> tuple[bytes, int]:
        """Events with what came after step `after`, not all at once if it is much, and the number they lead to."""
        first = bisect_right(self.sentences, after, key=lambda sentence: sentence.last)
        some = self.sentences[first : first + TOGETHER]
        return b"".join(sentence.event(after) for sentence in some), (some[-1].last if some else after)

    async def wait(self, seconds: float) -> bool:
        """Whether something changed within so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                return await self._news.wait()
        except TimeoutError:
            return False

    def words(self) -> Iterator[tuple[Word, bool]]:
        """All words, those of corrections included; with each, whether it is the last of its sentence or correction."""
        for sentence in self.sentences:
            for place, word in enumerate(sentence.words, start=1):
                yield word, sentence.ended and place == len(sentence.words)
            if sentence.correction:
                *some, last = sentence.added
                yield from ((Word(sentence.last, sentence.correction[0], text), False) for text in some)
                yield Word(sentence.last, sentence.correction[0], last), True

    def close(self) -> None:
        """Let every listener's connection end."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

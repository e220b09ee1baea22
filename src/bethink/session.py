"""One speaker's text on its way: where live text becomes words, sentences and, later, steps.

A Session knows no files and no sockets. It alone knows when a word arrived, where it stands in the text and when a step was made.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from bethink.engine import Engine, check
from bethink.errors import UsageError
from bethink.policy import Action, Policy
from bethink.stream import Stream
from bethink.text import Boundary, Joiner, Segmenter, Vocabulary, Word
from bethink.text.clean import LONGEST_WORD
from bethink.trace import ResumePoint, Step, units

PIECES = re.compile(rf"\S{{1,{LONGEST_WORD}}}\s*|\s+")  # a word or a part of it, and the white space that completes it


class Sentence:
    """One sentence on the engine, and how its steps read as text."""

    def __init__(
        self,
        target: Vocabulary,
        engine: Engine,
        policy: Policy,
        words: Iterable[Word] | None = None,
        *,
        tidy: bool = False,
    ) -> None:
        self.stream: Stream = engine.open(policy, target)
        self._engine = engine
        self._joiner = Joiner(target, tidy=tidy)
        if words is not None:
            for word in words:
                self.feed(word)
            self.close()

    def feed(self, word: Word) -> None:
        self._engine.feed(self.stream, word.ids, word.text)

    def close(self) -> None:
        self._engine.close(self.stream)

    def take(self) -> list[Step]:
        """The new steps, with the text that each of them adds."""
        return [step.with_text(self.text(step)) for step in self.stream.take()]

    def text(self, step: Step) -> str:
        """What the next step adds to what people see; to be asked once for each step, in their order."""
        if step.action is Action.READ:
            return step.text
        return self._joiner.finish() if step.end else self._joiner.push(step.token, complete=step.complete)


class Arrival(NamedTuple):
    """When the text came that completed a word or a sentence, and where in the text that was."""

    at: float
    offset: int  # UTF-16 code units


@dataclass(frozen=True, slots=True)
class End:
    """A text is complete: what follows is a text of its own."""


class Session:
    """An endless text from one speaker, sentence after sentence.

    `feed` and `finish` return the steps that follow. A session that shares an engine leaves the work to whoever drives that
    engine: there `feed` and `finish` return nothing, and `collect` returns the steps.
    """

    def __init__(
        self,
        source: Vocabulary,
        target: Vocabulary,
        policy: Policy,
        engine: Engine,
        *,
        shared: bool = False,
        begin: ResumePoint | None = None,
    ) -> None:
        """`begin` numbers sentences, steps and offsets as if all before that point had been fed to this session."""
        begin = begin or ResumePoint(str(policy))
        check(engine.backend, policy)
        self._source, self._target = source, target
        self._engine, self._shared = engine, shared
        self._segmenter = Segmenter(source)
        self._asked = self._policy = policy  # the last one asked for, and the one in force so far in the text
        self._events: deque[tuple[Word | Boundary | Policy | End, Arrival | None, int | None]] = deque()
        self._sentence: Sentence | None = None
        self._arrivals: deque[Arrival] = deque()  # of words and ends that the open sentence has not read yet
        self.began = time.monotonic()  # from which steps count their time
        self._newest = Arrival(self.began, begin.offset)  # of what was read last
        self._count, self._step = begin.sentence, begin.step  # of the open sentence, of the next step
        self._spoken = begin.sentence - 1 if begin.spoken else None  # the sentence whose text stands before the next
        self._offset = self._settled = begin.offset  # the end of the text, and its last place where no word was open
        self._silent = True  # whether no word was completed since then
        self._restart: int | None = None  # where a fresh start finds what follows the open sentence, if that is exact

    def feed(self, text: str, at: float | None = None) -> list[Step]:
        """Append text, cut anywhere. `at` is when it arrived, by `time.monotonic`, if that was before now."""
        require_text(text, "the text")
        arrived = time.monotonic() if at is None else at
        for piece in PIECES.findall(text):
            self._offset += units(piece)
            self._take(self._segmenter.feed(piece), Arrival(arrived, self._offset))
        return self._go_on()

    def finish(self, at: float | None = None) -> list[Step]:
        """The text is complete; translates what is left. The session can then be used again."""
        self._take(self._segmenter.finish(), Arrival(time.monotonic() if at is None else at, self._offset))
        self._events.append((End(), None, None))
        return self._go_on()

    def collect(self) -> list[Step]:
        """Steps since the last call. A sentence that ended makes room for the next, so drive the engine until none come."""
        steps: list[Step] = []
        if (sentence := self._sentence) is not None:
            now = time.monotonic()
            steps = [self._tell(step, sentence.text(step), now) for step in sentence.stream.take()]
            if sentence.stream.done:
                self._sentence = None
                self._count += 1
        self._hand_over()
        return steps

    @property
    def policy(self) -> Policy:
        """The last one asked for. A change holds for sentences whose first word is completed by text fed after it."""
        return self._asked

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._asked = policy
        self._events.append((policy, None, None))
        self._hand_over()

    @property
    def backlog(self) -> int:
        """Words, ends and changes of policy that wait until the sentence before them is written."""
        return len(self._events)

    @property
    def stream(self) -> Stream | None:
        """The open sentence on the engine."""
        return self._sentence.stream if self._sentence else None

    @property
    def moving(self) -> bool:
        """Whether a round of the engine may bring new steps."""
        return self._sentence is not None and self._engine.is_ready(self._sentence.stream)

    @property
    def resting(self) -> bool:
        """Whether all sentences fed so far are complete, written and collected."""
        return self._sentence is None and not self._events

    def abandon(self) -> None:
        """Drop everything in flight, the open word too, as when a speaker hangs up."""
        self._events.clear()
        self._arrivals.clear()
        self._segmenter = Segmenter(self._source)
        self._spoken = None
        if self._sentence is not None:
            self._engine.abandon(self._sentence.stream)
            self._sentence = None
            self._count += 1

    def _take(self, events: Sequence[Word | Boundary], arrival: Arrival) -> None:
        """Queue what a piece of text completed, and note from which place a fresh start would find the same sentences."""
        for number, event in enumerate(events):
            restart = None
            if isinstance(event, Boundary):
                if number == len(events) - 1 and self._segmenter.settled:
                    restart = self._offset
                elif number == 0 and self._silent:  # cut before the word at hand, which then begins the next sentence
                    restart = self._settled
            self._events.append((event, arrival, restart))
        self._silent = self._silent and not events
        if self._segmenter.settled:
            self._settled, self._silent = self._offset, True

    def _hand_over(self) -> None:
        """Give the open sentence its words; the next sentence waits until this one is written."""
        while self._events and not (self._sentence and self._sentence.stream.closed):
            event, arrival, restart = self._events.popleft()
            if isinstance(event, Word | Boundary):
                assert arrival is not None, "text has arrived some time"
                self._arrivals.append(arrival)
                if self._sentence is None:
                    self._sentence = Sentence(self._target, self._engine, self._policy, tidy=True)
                if isinstance(event, Word):
                    self._sentence.feed(event)
                else:
                    self._sentence.close()
                    self._restart = restart
            elif isinstance(event, End):
                self._spoken = None
            else:
                self._policy = event

    def _go_on(self) -> list[Step]:
        self._hand_over()
        steps: list[Step] = []
        while not self._shared:
            self._engine.run()
            new = self.collect()
            if not new:
                break
            steps += new
        return steps

    def _tell(self, step: Step, text: str, now: float) -> Step:
        """The step with its text, number, place and time."""
        offset = resume = None
        if step.action is Action.READ:
            if text or step.end:
                self._newest = self._arrivals.popleft()
            offset = self._newest.offset
        elif text:
            text = text if self._spoken in (None, self._count) else f" {text}"  # between sentences
            self._spoken = self._count
        self._step += 1
        if step.end and step.action is Action.WRITE and self._restart is not None:
            spoken = self._spoken is not None
            resume = ResumePoint(str(self._policy), self._count + 1, self._step, self._restart, spoken)
        return replace(
            step,
            text=text,
            sentence=self._count,
            n=self._step - 1,
            offset=offset,
            at=round(1000 * (now - self.began)),
            lag=round(1000 * (now - self._newest.at)),
            resume=resume,
        )


def require_text(text: str, where: str) -> None:
    if not isinstance(text, str):
        raise UsageError(f"{where} must be a str, not {type(text).__name__}")

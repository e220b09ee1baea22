"""One speaker's text on its way: where live text becomes words, sentences and, later, steps.

A Session knows no files and no sockets. It alone knows when a word arrived, where it stands in the text and when a step was made.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from bethink.engine import Engine, check
from bethink.errors import UsageError
from bethink.policy import WRITE, Action, Offline, Policy
from bethink.stream import Stream
from bethink.text import EOS, UNK, Boundary, Copier, Joiner, Segmenter, Vocabulary, Word
from bethink.text.clean import LONGEST_WORD
from bethink.text.notice import Noticer
from bethink.text.repair import Repair
from bethink.trace import ResumePoint, Step, Tail, shown, sureness, units

PIECES = re.compile(rf"\S{{1,{LONGEST_WORD}}}\s*|\s+")  # a word or a part of it, and the white space that completes it
COPIED = WRITE.because("copied").reason


class Sentence:
    """One sentence on the engine, or copied without it, and how its steps read as text."""

    def __init__(
        self,
        target: Vocabulary,
        engine: Engine,
        policy: Policy,
        first: Word,
        *,
        tidy: bool = False,
        repair: Repair | None = None,
        tail: bool = False,
    ) -> None:
        """Begins with the word `first`: one without ids begins a sentence that is copied, in which each word is written as it is read.
        `repair` adds a correction if need be. With `tail`, each READ says what would have come next."""
        self.stream = engine.open(policy, target) if first.ids else None
        self.closed = False
        self._copied: list[Step] = []  # of a sentence that is copied: the steps not taken yet
        self._engine = engine
        self._joiner = Joiner(target, tidy=tidy)
        self._words: list[Word] = []
        self._terms: set[str] = set()  # translations that the glossary gave
        self._stabilities: list[float | None] = []  # of tokens not shown yet; None once the source was complete
        self._target, self._tidy, self._repair, self._tail = target, tidy, repair, tail
        self._said = ""  # the translation so far
        self._last: Step | None = None  # the end, while the whole sentence is translated anew
        self._whole: Sentence | None = None
        self.feed(first)

    @classmethod
    def of(cls, target: Vocabulary, engine: Engine, policy: Policy, words: Sequence[Word], **settings: Any) -> Sentence:
        """A whole sentence."""
        self = cls(target, engine, policy, words[0], **settings)
        for word in words[1:]:
            self.feed(word)
        self.close()
        return self

    def feed(self, word: Word) -> None:
        self._words.append(word)
        if word.term and word.copied:
            self._terms.add(word.copied)
        if self.stream is None:
            self._copy(UNK, word.text, word.copied)
            return
        if word.copied is not None and word.read_as is not None:
            self._joiner.expect(word.read_as, word.copied, term=word.term)
        elif word.number:
            self._joiner.expect_number(word.number)
        self._engine.feed(self.stream, word.ids, word.text)

    def close(self) -> None:
        self.closed = True
        if self.stream is None:
            self._copy(EOS, end=True)
        else:
            self._engine.close(self.stream)

    def _copy(self, token: int, text: str = "", copied: str | None = None, *, end: bool = False) -> None:
        """Both actions of a word that is copied, or of the end."""
        words, tokens = len(self._words), len(self._words) + end
        told = f" {copied}" if copied and words > 1 else copied or ""
        self._copied += [
            Step(Action.READ, token, tokens, words, tokens - 1, text=text, copied=copied, end=end, reason=COPIED),
            Step(Action.WRITE, token, tokens, words, tokens, text=told, copied=copied, end=end, reason=COPIED),
        ]

    def abandon(self) -> None:
        if self.stream:
            self._engine.abandon(self.stream)
        if self._whole:
            self._whole.abandon()

    @property
    def active(self) -> Stream | None:
        """What is on the engine: the sentence, or its second translation."""
        return self._whole.active if self._whole else self.stream

    @property
    def done(self) -> bool:
        """Whether all steps have been taken or can be."""
        return (self.stream.done if self.stream else self.closed) and self._last is None

    @property
    def moving(self) -> bool:
        """Whether there are steps that need no engine, or a round of the engine may bring some."""
        if self.stream is None:
            return bool(self._copied)
        return self._whole.moving if self._whole else self._engine.is_ready(self.stream)

    @property
    def tail(self) -> str:
        """What would come next, as far as the policy has looked at it; after `take`."""
        return "" if self.stream is None or self.stream.done else self._joiner.preview(self.stream.put_off)

    def take(self) -> list[Step]:
        """The new steps, with what each of them adds to what people see."""
        if self.stream is None:
            steps, self._copied = self._copied, []
            return steps
        steps = [self._told(step) for step in self.stream.take()]
        if self._repair is None:
            return steps
        self._said += shown(steps)
        if steps and self.stream.done and self._repair.doubtful(self._source, self._said):
            self._last = steps.pop()
            self._whole = Sentence.of(self._target, self._engine, Offline(), self._words, tidy=self._tidy)
        if self._last and self._whole and self._whole.done:
            whole = self._whole.take()
            sure = sureness(whole)
            correction = self._repair.correction(self._source, self._said, shown(whole).strip(), sure)
            steps.append(replace(self._last, correction=correction))
            self._last = None
        return steps

    @property
    def _source(self) -> str:
        return " ".join(word.text for word in self._words)

    def _told(self, step: Step) -> Step:
        if step.action is Action.READ:
            if self._tail:
                step = replace(step, tail=self._joiner.preview(step.put_off) or None)
            word = self._words[step.heard - 1]
            return replace(step, read_as=word.read_as, copied=word.copied, term=word.term) if step.text else step
        if not step.end:
            self._stabilities.append(None if step.reason.code == "source_complete" else step.stability)
        text = self._joiner.finish() if step.end else self._joiner.push(step.token, complete=step.complete)
        if not text:
            return step
        copied = self._joiner.copied
        term = copied is not None and any(each in copied for each in self._terms)
        return replace(step, text=text, copied=copied, term=term, text_stability=self._take_stability())

    def _take_stability(self) -> float | None:
        """The least stability of the tokens of the words shown now, of those that were written early."""
        count = len(self._stabilities) - self._joiner.unshown
        shown, self._stabilities = self._stabilities[:count], self._stabilities[count:]
        return min((each for each in shown if each is not None), default=None)


class Arrival(NamedTuple):
    """When the text came that completed a word or a sentence, and where in the text that was."""

    at: float
    offset: int  # UTF-16 code units


class Session:
    """An endless text from one speaker, sentence after sentence.

    `feed` and `finish` return the steps that follow. A session that shares an engine leaves the work to the caller that runs the
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
        copier: Copier | None = None,
        language: str = "",
        repair: Repair | None = None,
    ) -> None:
        """`begin` numbers sentences, steps and offsets as if all before that point had been fed to this session.

        `language` is the code of the source language, if it is known: names are noticed by its rules.
        """
        begin = begin or ResumePoint(str(policy))
        check(engine.backend, policy)
        self._target = target
        self._engine, self._shared = engine, shared
        self._source, self._copier, self._repair = source, copier, repair
        self._segmenter = Segmenter(source, copier=copier)
        self._noticer = Noticer(language, source)
        self._asked = self._policy = policy  # the last one asked for, and the one in force so far in the text
        # what waits for the open sentence; None: the text is complete, and what follows is a text of its own
        self._events: deque[tuple[Word | Boundary | Policy | None, Arrival | None, int | None]] = deque()
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
        self._events.append((None, None, None))
        return self._go_on()

    def collect(self) -> list[Step]:
        """Steps since the last call. A sentence that ended makes room for the next, so drive the engine until none come."""
        steps: list[Step] = []
        if (sentence := self._sentence) is not None:
            now = time.monotonic()
            steps = [self._tell(step, now) for step in sentence.take()]
            if sentence.done:
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
    def tail(self) -> Tail:
        """What the model would write next, as far as the policy has looked at it and put it off. Costs no model work."""
        text = self._sentence.tail if self._sentence else ""
        return Tail(self._count, self._apart(text))

    @property
    def backlog(self) -> int:
        """Words, ends and changes of policy that wait until the sentence before them is written."""
        return len(self._events)

    @property
    def stream(self) -> Stream | None:
        """What the open sentence has on the engine."""
        return self._sentence.active if self._sentence else None

    @property
    def moving(self) -> bool:
        """Whether a round of the engine may bring new steps."""
        return self._sentence is not None and self._sentence.moving

    @property
    def resting(self) -> bool:
        """Whether all sentences fed so far are complete, written and collected."""
        return self._sentence is None and not self._events

    def abandon(self) -> None:
        """Drop everything in flight, the open word too, as when a speaker hangs up."""
        self._events.clear()
        self._arrivals.clear()
        self._segmenter = Segmenter(self._source, copier=self._copier)
        self._spoken = None
        if self._sentence is not None:
            self._sentence.abandon()
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
        while self._events and not (self._sentence and self._sentence.closed):
            event, arrival, restart = self._events.popleft()
            if isinstance(event, Word | Boundary):
                assert arrival is not None, "text has arrived some time"
                self._arrivals.append(arrival)
                if isinstance(event, Boundary):
                    assert self._sentence is not None, "a sentence has words"
                    self._sentence.close()
                    self._restart = restart
                elif self._sentence is None:
                    self._sentence = Sentence(
                        self._target, self._engine, self._policy, event, tidy=True, repair=self._repair
                    )
                else:
                    self._sentence.feed(event)
            elif event is None:
                self._spoken = None
            else:
                self._policy = event

    def _go_on(self) -> list[Step]:
        self._hand_over()
        steps: list[Step] = []
        while not self._shared:
            self._engine.run()
            new = self.collect()
            if not new and not self.moving:
                break
            steps += new
        return steps

    def _tell(self, step: Step, now: float) -> Step:
        """The step with its number, place and time."""
        offset, resume, notice, text = None, None, None, step.text
        if step.action is Action.READ:
            if text:
                notice = self._noticer.feed(text, first=step.heard == 1)
            if text or step.end:
                self._newest = self._arrivals.popleft()
            offset = self._newest.offset
        elif text:
            text = self._apart(text)
            self._spoken = self._count
        self._step += 1
        if step.end and step.action is Action.WRITE and self._restart is not None:
            spoken = self._spoken is not None
            resume = ResumePoint(str(self._policy), self._count + 1, self._step, self._restart, spoken)
        return replace(
            step,
            text=text,
            sentence=self._count,
            notice=notice,
            n=self._step - 1,
            offset=offset,
            at=round(1000 * (now - self.began)),
            lag=round(1000 * (now - self._newest.at)),
            resume=resume,
        )

    def _apart(self, text: str) -> str:
        """The next text of the open sentence, with a space before it if it follows another sentence."""
        return f" {text}" if text and self._spoken not in (None, self._count) else text


def require_text(text: str, where: str) -> None:
    if not isinstance(text, str):
        raise UsageError(f"{where} must be a str, not {type(text).__name__}")

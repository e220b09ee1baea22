"""Text in, text out: a Translator is a model and what it needs, immutable; a Session is one speaker's text on its way.

Neither knows files or sockets. A Session is where live text becomes words, sentences and, later, steps: it alone knows when a word
arrived, where it stands in the text, and when a step was made. `Session.feed` returns the steps that the new text made possible.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from bethink import folder as folders
from bethink.backend import Backend
from bethink.engine import Engine, check
from bethink.errors import DataError, MissingExtra, ModelError, UsageError, unknown
from bethink.model.config import LONGEST
from bethink.policy import Action, Policy, parse
from bethink.stream import Stream
from bethink.text import Boundary, Joiner, Segmenter, Vocabulary, Word
from bethink.text.clean import LONGEST_WORD
from bethink.trace import ResumePoint, Step, Translation, shown, units

# Of a batch, one in so many places must be free before new sentences take them: a GPU reads a few in the time it takes for many.
TOGETHER = 8
MOST_THREADS = max(64, os.cpu_count() or 1)
PIECES = re.compile(rf"\S{{1,{LONGEST_WORD}}}\s*|\s+")  # a word or a part of it, and the white space that completes it


class Translator:
    """A model folder made ready: `Translator("de-en").translate("Guten Morgen!")`.

    Never changed once it is made, so any number of threads may share it. A `Session` belongs to one of them; for many speakers on
    one engine see `bethink.AsyncTranslator`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        policy: str | Policy | None = None,
        backend: str | None = None,
        device: str | None = None,
        threads: int = 0,
    ) -> None:
        """`policy` is for every call that names no other, by default the one that the model recommends.

        `backend` is onnx or torch, by default the first that the folder has files for; 0 threads means all cores.
        """
        folder = folders.Folder.open(folders.find(model))
        self.name, self.fingerprint = folder.name, folder.fingerprint
        self.policy = parse(folder.policy)
        self.source, self.target = folder.source, folder.target
        self.about = folder.about
        self.backend = _load(folder, backend, device, threads)
        if policy is not None:
            self.policy = self.served(policy)

    @classmethod
    def of(cls, backend: Backend, source: Vocabulary, target: Vocabulary, *, name: str, policy: Policy) -> Translator:
        """A translator over a backend at hand, for example a model in training."""
        self = cls.__new__(cls)
        self.name, self.policy, self.source, self.target, self.backend = name, policy, source, target, backend
        self.about, self.fingerprint = {}, ""
        return self

    def session(
        self,
        policy: str | Policy | None = None,
        *,
        engine: Engine | None = None,
        begin: ResumePoint | None = None,
    ) -> Session:
        """One speaker; sessions that share an engine are advanced together by whoever drives it."""
        return Session(self, self.served(policy), engine, begin)

    def translate(self, text: str, policy: str | Policy | None = None) -> str:
        """The translation of a whole text, as a str; `translate_many` gives each line's steps and delays as well."""
        return shown(list(self.stream([text], policy)))

    def stream(self, chunks: Iterable[str], policy: str | Policy | None = None) -> Iterator[Step]:
        """Steps as text arrives, however it is cut."""
        if not isinstance(chunks, Iterable):
            raise UsageError(f"the text must be an iterable of str, as in [text], not {type(chunks).__name__}")
        return self._steps(chunks, self.session(policy))

    def _steps(self, chunks: Iterable[str], session: Session) -> Iterator[Step]:
        try:
            for chunk in chunks:
                yield from session.feed(chunk)
            yield from session.finish()
        finally:
            session.abandon()  # nothing is left, unless the reader or the source gave up

    def translate_many(
        self,
        sentences: Sequence[str],
        policy: str | Policy | None = None,
        *,
        batch: int = 64,
        engine: Engine | None = None,
    ) -> Iterator[Translation]:
        """A `Translation` for each line, in order: its `text`, and every step that led to it.

        Lines are not split into sentences; `batch` of them are translated at a time.
        """
        done: dict[int, Translation] = {}
        following = 0
        for number, translation in self._translated(self._numbered(sentences), policy, batch, engine):
            done[number] = translation
            while following in done:
                yield done.pop(following)
                following += 1

    def as_completed(
        self,
        sentences: Sequence[str],
        policy: str | Policy | None = None,
        *,
        batch: int = 64,
        engine: Engine | None = None,
    ) -> Iterator[tuple[int, Translation]]:
        """The same as they end, each with its index, long ones first: alike in length they take a fifth less time than mixed."""
        ordered = sorted(self._numbered(sentences), key=lambda each: -len(each[1]))
        return self._translated(ordered, policy, batch, engine)

    def _engine(self, batch: int) -> Engine:
        return Engine(self.backend, batch=batch)

    def _numbered(self, sentences: Sequence[str]) -> list[tuple[int, list[Word]]]:
        if isinstance(sentences, str):
            raise UsageError("the sentences must be a list or another sequence of str, not one str; write [text]")
        return [(n, self.words(line, where=f"line {n + 1}")) for n, line in enumerate(sentences)]

    def _translated(
        self,
        sentences: Sequence[tuple[int, list[Word]]],
        policy: str | Policy | None,
        batch: int,
        engine: Engine | None,
    ) -> Iterator[tuple[int, Translation]]:
        """Begun in the order given, told as they end."""
        policy = self.served(policy)
        engine = engine or self._engine(batch)
        waiting, running = deque(sentences), dict[int, Sentence]()
        try:
            while waiting or running:
                room = batch - len(running)
                while waiting and len(running) < batch and room >= batch // TOGETHER:
                    number, words = waiting.popleft()
                    if words:
                        running[number] = Sentence(self, engine, policy, words)
                    else:
                        yield number, Translation.of([])
                engine.round()
                for number in [number for number, sentence in running.items() if sentence.stream.done]:
                    yield number, Translation.of(running.pop(number).take())
        finally:
            for sentence in running.values():
                engine.abandon(sentence.stream)

    def words(self, line: str, where: str = "the text") -> list[Word]:
        """The words of one line, its sentence boundaries ignored."""
        require_text(line, where)
        segmenter = Segmenter(self.source)
        words = [event for event in segmenter.feed(line) + segmenter.finish() if isinstance(event, Word)]
        if (tokens := sum(len(word.ids) for word in words)) >= LONGEST:
            raise DataError(
                f"{where} has {tokens} tokens, but a sentence may have at most {LONGEST - 1}; split it into sentences"
            )
        return words

    def served(self, policy: str | Policy | None) -> Policy:
        """The policy that was asked for, by default the translator's own; raises for one that the model cannot serve."""
        chosen = self.policy if policy is None else parse(policy) if isinstance(policy, str) else policy
        if not callable(getattr(chosen, "decide", None)):
            raise UsageError(f"the policy must be a str such as 'wait-k:k=3', or a Policy, not {type(chosen).__name__}")
        check(self.backend, chosen)
        return chosen


class Sentence:
    """One sentence on the engine, and how its steps read as text."""

    def __init__(
        self,
        translator: Translator,
        engine: Engine,
        policy: Policy,
        words: Iterable[Word] | None = None,
        *,
        tidy: bool = False,
    ) -> None:
        self.stream: Stream = engine.open(policy, translator.target)
        self._engine = engine
        self._joiner = Joiner(translator.target, tidy=tidy)
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
        return self._joiner.finish() if step.end else self._joiner.push(step.token)


class Arrival(NamedTuple):
    """When the text came that completed a word or a sentence, when the session took it, and where in the text that was."""

    at: float
    taken: float
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
        self, translator: Translator, policy: Policy, engine: Engine | None = None, begin: ResumePoint | None = None
    ) -> None:
        """`begin` numbers sentences, steps and offsets as if all before that point had been fed to this session."""
        begin = begin or ResumePoint(str(policy))
        self.waited = 0.0  # seconds between taking the newest word read and the last step: what the engine cost
        self._translator = translator
        self._engine = engine or Engine(translator.backend)
        self._shared = engine is not None
        check(self._engine.backend, policy)
        self._segmenter = Segmenter(translator.source)
        self._asked = self._policy = policy  # the last one asked for, and the one in force so far in the text
        self._events: deque[tuple[Word | Boundary | Policy | End, Arrival | None, int | None]] = deque()
        self._sentence: Sentence | None = None
        self._arrivals: deque[Arrival] = deque()  # of words and ends that the open sentence has not read yet
        self._began = time.monotonic()
        self._newest = Arrival(self._began, self._began, begin.offset)  # of what was read last
        self._count, self._step = begin.sentence, begin.step  # of the open sentence, of the next step
        self._spoken = begin.sentence - 1 if begin.spoken else None  # the sentence whose text stands before the next
        self._offset = self._settled = begin.offset  # the end of the text, and its last place where no word was open
        self._silent = True  # whether no word was completed since then
        self._restart: int | None = None  # where a fresh start finds what follows the open sentence, if that is exact

    def feed(self, text: str, at: float | None = None) -> list[Step]:
        """Append text, cut anywhere. `at` is when it arrived, by `time.monotonic`, if that was before now."""
        require_text(text, "the text")
        now = time.monotonic()
        arrived = now if at is None else at
        for piece in PIECES.findall(text):
            self._offset += units(piece)
            self._take(self._segmenter.feed(piece), Arrival(arrived, now, self._offset))
        return self._go_on()

    def finish(self, at: float | None = None) -> list[Step]:
        """The text is complete; translates what is left. The session can then be used again."""
        now = time.monotonic()
        self._take(self._segmenter.finish(), Arrival(now if at is None else at, now, self._offset))
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
        self._segmenter = Segmenter(self._translator.source)
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
                    self._sentence = Sentence(self._translator, self._engine, self._policy, tidy=True)
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
        self.waited = now - self._newest.taken
        return replace(
            step,
            text=text,
            sentence=self._count,
            n=self._step - 1,
            offset=offset,
            at=round(1000 * (now - self._began)),
            lag=round(1000 * (now - self._newest.at)),
            resume=resume,
        )


def require_text(text: str, where: str) -> None:
    if not isinstance(text, str):
        raise UsageError(f"{where} must be a str, not {type(text).__name__}")


def _load(folder: folders.Folder, backend: str | None, device: str | None, threads: int) -> Backend:
    if backend not in (None, "onnx", "torch"):
        raise unknown("backend", backend, ("onnx", "torch"))
    if type(threads) is not int or not 0 <= threads <= MOST_THREADS:
        raise UsageError(f"threads is {threads}, expected 1 to {MOST_THREADS}, or 0 for as many as there are cores")
    if backend == "onnx" and device is not None:
        raise UsageError(f"device {device} is for the torch backend; the onnx backend runs on the CPU")
    if backend != "torch" and device is None and folder.has("decoder.onnx"):
        from bethink.backend.onnx import OnnxBackend

        return OnnxBackend.load(folder.path, threads=threads)
    if backend == "onnx":
        raise ModelError(
            f"the model in {folder.path} has no ONNX graphs; make them with: bethink export {folder.path} --to DIR"
        )
    if not folder.has(folders.WEIGHTS):
        raise ModelError(
            f"the model in {folder.path} has no weights for torch, only ONNX graphs, which run on the CPU; leave the backend and the "
            "device out, or name a model made with: bethink export RUN --to DIR --weights"
        )
    try:
        from bethink.backend.torch import TorchBackend
    except ModuleNotFoundError as error:
        raise MissingExtra("translating with torch", "train") from error
    return TorchBackend.load(folder, device, threads)

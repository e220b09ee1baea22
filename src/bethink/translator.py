"""Text in, text out: a Translator is a model and what it needs, immutable; a Session is one speaker's text on its way.

Neither knows files, sockets or clocks. `Session.feed` returns the steps that the new text made possible.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bethink import folder as folders
from bethink.backend import Backend
from bethink.engine import Engine, check
from bethink.errors import DataError, MissingExtra, ModelError, UsageError, unknown
from bethink.model.config import LONGEST
from bethink.policy import Action, Policy, parse
from bethink.stream import Stream
from bethink.text import EOS, Boundary, Joiner, Segmenter, Vocabulary, Word
from bethink.trace import Step, Translation, shown

# Of a batch, one in so many places must be free before new sentences take them: a GPU reads a few in the time it takes for many.
TOGETHER = 8
MOST_THREADS = max(64, os.cpu_count() or 1)


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

    def session(self, policy: str | Policy | None = None, *, engine: Engine | None = None) -> Session:
        """One speaker; sessions that share an engine are advanced together by whoever drives it."""
        return Session(self, self.served(policy), engine or Engine(self.backend))

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
                self.hear(word)
            self.close()

    def hear(self, word: Word) -> None:
        self._engine.hear(self.stream, word.ids, word.text)

    def close(self) -> None:
        self._engine.close(self.stream)

    def take(self) -> list[Step]:
        """The new steps, with the text that each of them adds."""
        return [self._dress(step) for step in self.stream.take()]

    def _dress(self, step: Step) -> Step:
        if step.action is Action.READ:
            return step
        return step.with_text(self._joiner.finish() if step.token == EOS else self._joiner.push(step.token))


@dataclass(frozen=True, slots=True)
class End:
    """A text is complete: what follows is a text of its own."""


class Session:
    """An endless text from one speaker, sentence after sentence."""

    def __init__(self, translator: Translator, policy: Policy, engine: Engine) -> None:
        check(engine.backend, policy)
        self.policy = policy  # may be changed at any time; the next sentence uses it
        self._translator = translator
        self._engine = engine
        self._segmenter = Segmenter(translator.source)
        self._events: deque[Word | Boundary | End] = deque()
        self._sentence: Sentence | None = None
        self._count = 0
        self._spoken: int | None = None  # the sentence that wrote last, if its text stands before the next

    def feed(self, text: str) -> list[Step]:
        """Hear more text, cut anywhere; the steps that follow from it."""
        self.push(text)
        return self._drive()

    def finish(self) -> list[Step]:
        """The text is complete; translates what is left. The session can then be used again."""
        self.close()
        return self._drive()

    def push(self, text: str) -> int:
        """Like `feed`, for callers that drive the engine themselves and `collect` later; how many words and ends it completed."""
        require_text(text, "the text")
        return self._hear(self._segmenter.feed(text))

    def close(self) -> int:
        """Like `finish`, for callers that drive the engine themselves."""
        completed = self._hear(self._segmenter.finish())
        self._events.append(End())
        self._hand_over()
        return completed

    def collect(self) -> list[Step]:
        """Steps since the last call. A sentence that ended makes room for the next, so drive the engine until none come."""
        steps: list[Step] = []
        if self._sentence is not None:
            steps = self._spaced([step.with_sentence(self._count) for step in self._sentence.take()])
            if self._sentence.stream.done:
                self._sentence = None
                self._count += 1
        self._hand_over()
        return steps

    @property
    def backlog(self) -> int:
        """Words and ends that wait until the sentence before them is written."""
        return len(self._events)

    @property
    def moving(self) -> bool:
        """Whether a round of the engine may bring new steps."""
        return self._sentence is not None and self._engine.is_ready(self._sentence.stream)

    @property
    def resting(self) -> bool:
        """Whether all sentences heard so far are complete, written and collected."""
        return self._sentence is None and not self._events

    def abandon(self) -> None:
        """Drop everything in flight, the word half heard too, as when a speaker hangs up."""
        self._events.clear()
        self._segmenter = Segmenter(self._translator.source)
        self._spoken = None
        if self._sentence is not None:
            self._engine.abandon(self._sentence.stream)
            self._sentence = None
            self._count += 1

    def _drive(self) -> list[Step]:
        steps: list[Step] = []
        while True:
            self._engine.run()
            new = self.collect()
            if not new:
                return steps
            steps += new

    def _hear(self, events: Sequence[Word | Boundary]) -> int:
        self._events += events
        self._hand_over()
        return len(events)

    def _hand_over(self) -> None:
        """Give the open sentence its words; the next sentence waits until this one is written."""
        while self._events and not (self._sentence and self._sentence.stream.closed):
            event = self._events.popleft()
            if isinstance(event, End):
                self._spoken = None
                continue
            if self._sentence is None:
                self._sentence = Sentence(self._translator, self._engine, self.policy, tidy=True)
            if isinstance(event, Word):
                self._sentence.hear(event)
            else:
                self._sentence.close()

    def _spaced(self, steps: list[Step]) -> list[Step]:
        """Put a space between sentences, with the first text of the later one."""
        for n, step in enumerate(steps):
            if step.action is Action.WRITE and step.text:
                if self._spoken not in (None, step.sentence):
                    steps[n] = step.with_text(" " + step.text)
                self._spoken = step.sentence
        return steps


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

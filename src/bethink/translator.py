"""Text in, text out: a Translator is a model folder made ready, immutable, shared by all who translate with it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from bethink import folder as folders
from bethink.backend import Backend
from bethink.backend.reencode import word_by_word
from bethink.engine import Engine, check
from bethink.errors import DataError, ModelError, UsageError, needs_extra, unknown
from bethink.model.config import LONGEST
from bethink.policy import Policy, parse
from bethink.session import Sentence, Session, require_text
from bethink.text import Copier, Glossary, Segmenter, Vocabulary, Word
from bethink.text.languages import short
from bethink.text.repair import Repair
from bethink.trace import ResumePoint, Step, Translation, shown

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
        copy: bool = True,
        glossary: Glossary | None = None,
        repair: bool = False,
    ) -> None:
        """`policy` is for every call that names no other, by default the one that the model recommends.

        With `copy`, addresses, codes and other words that cannot be translated are carried over. `glossary` has terms and how to
        write them. With `repair`, a correction follows a sentence of a session that turned out to have lost a negation or a
        number; `translate_many` adds none.
        `backend` is onnx or torch, by default the first that the folder has files for; 0 threads means all cores.
        """
        folder = folders.Folder.open(folders.find(model))
        self.name, self.fingerprint = folder.name, folder.fingerprint
        self.policy = parse(folder.policy)
        self.source, self.target = folder.source, folder.target
        self.about = folder.about
        self.copier = Copier(self.source, self.target, self.languages) if copy else None
        if glossary is not None:
            self.copier = self._with_terms(glossary)
            self.fingerprint += f"+{glossary.fingerprint}"  # results and resumed streams depend on it
        self.repair = Repair.of(*self.languages) if repair else None
        if repair and self.repair is None:
            raise UsageError(
                f"corrections need to know the languages, but {self.name} translates from '{self.languages[0]}' to '{self.languages[1]}'; "
                "there are de and en"
            )
        self.backend = _load(folder, backend, device, threads)
        if policy is not None:
            self.policy = self.served(policy)

    @classmethod
    def of(cls, backend: Backend, source: Vocabulary, target: Vocabulary, *, name: str, policy: Policy) -> Translator:
        """A translator over a backend at hand, for example a model in training."""
        self = cls.__new__(cls)
        self.name, self.policy, self.source, self.target, self.backend = name, policy, source, target, backend
        self.about, self.fingerprint, self.copier, self.repair = {}, "", Copier(source, target), None
        return self

    def session(
        self,
        policy: str | Policy | None = None,
        *,
        engine: Engine | None = None,
        begin: ResumePoint | None = None,
        glossary: Glossary | None = None,
    ) -> Session:
        """One speaker; sessions that share an engine are advanced together by the caller that runs it.

        `glossary` is for this session, in place of the translator's own.
        """
        own = engine or Engine(self.backend)
        return Session(
            self.source,
            self.target,
            self.served(policy),
            own,
            shared=engine is not None,
            begin=begin,
            language=self.languages[0],
            copier=self.copier if glossary is None else self._with_terms(glossary),
            repair=self.repair,
        )

    @property
    def languages(self) -> tuple[str, str]:
        """Codes such as de and en of what it hears and says; empty where its makers did not say."""
        return short(str(self.about.get("source", ""))), short(str(self.about.get("target", "")))

    def _with_terms(self, glossary: Glossary) -> Copier:
        if self.copier is None or not self.copier.useful:
            raise ModelError(
                f"the model {self.name} cannot use a glossary, because its vocabulary has no words that can stand in for terms; "
                "leave the glossary out, or use a model with sub-words"
            )
        return self.copier.with_glossary(glossary)

    def translate(self, text: str, policy: str | Policy | None = None) -> str:
        """The translation of a whole text, as a str; `translate_many` gives each line's steps and delays as well."""
        return shown(list(self.stream([text], policy)), corrections=True)

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
        tail: bool = False,
    ) -> Iterator[tuple[int, Translation]]:
        """The same as they end, each with its index, long ones first: alike in length they take a fifth less time than mixed.

        With `tail`, each READ says what would have come next.
        """
        ordered = sorted(self._numbered(sentences), key=lambda each: -len(each[1]))
        return self._translated(ordered, policy, batch, engine, tail=tail)

    def _numbered(self, sentences: Sequence[str]) -> list[tuple[int, list[Word]]]:
        if isinstance(sentences, str):
            raise UsageError("the sentences must be a list or another sequence of str, not one str; write [text]")
        if not isinstance(sentences, Iterable):
            raise UsageError(f"the sentences must be a list or another sequence of str, not {type(sentences).__name__}")
        return [(n, self.words(line, where=f"line {n + 1}")) for n, line in enumerate(sentences)]

    def _translated(
        self,
        sentences: Sequence[tuple[int, list[Word]]],
        policy: str | Policy | None,
        batch: int,
        engine: Engine | None,
        *,
        tail: bool = False,
    ) -> Iterator[tuple[int, Translation]]:
        """Begun in the order given, told as they end."""
        policy = self.served(policy)
        engine = engine or Engine(self.backend, batch=batch)
        waiting, running = deque(sentences), dict[int, Sentence]()
        try:
            while waiting or running:
                room = batch - len(running)
                while waiting and len(running) < batch and room >= batch // TOGETHER:
                    number, words = waiting.popleft()
                    if words:
                        running[number] = Sentence.of(self.target, engine, policy, words, tail=tail)
                    else:
                        yield number, Translation.of([])
                engine.round()
                for number in [number for number, sentence in running.items() if sentence.done]:
                    yield number, Translation.of(running.pop(number).take())
        finally:
            for sentence in running.values():
                sentence.abandon()

    def words(self, line: str, where: str = "the text") -> list[Word]:
        """The words of one line, its sentence boundaries ignored."""
        require_text(line, where)
        segmenter = self.segmenter()
        words = [event for event in segmenter.feed(line) + segmenter.finish() if isinstance(event, Word)]
        if (tokens := sum(len(word.ids) for word in words)) >= LONGEST:
            raise DataError(
                f"{where} has {tokens} tokens, but a sentence may have at most {LONGEST - 1}; split it into sentences"
            )
        return words

    def segmenter(self) -> Segmenter:
        """Divides lines into words; a line is one sentence."""
        return Segmenter(self.source, copier=self.copier, by_line=True)

    @property
    def counts_words(self) -> bool:
        """Whether policies may count words: the vocabulary or the model must say where a target word ends."""
        return self.target.marks_ends or self.backend.parts_words

    def served(self, policy: str | Policy | None) -> Policy:
        """The policy that was asked for, by default the translator's own; raises for one that the model cannot serve."""
        chosen = self.policy if policy is None else parse(policy) if isinstance(policy, str) else policy
        if not callable(getattr(chosen, "decide", None)):
            raise UsageError(f"the policy must be a str such as 'wait-k:k=3', or a Policy, not {type(chosen).__name__}")
        check(self.backend, chosen)
        if getattr(chosen, "unit", "token") == "word" and not self.counts_words:
            raise UsageError(
                f"policy {chosen} counts words, but {self.name} has a vocabulary that marks only the beginning of words, and its graphs "
                "were made by an older version of bethink; use unit=token or export the model again"
            )
        return chosen


def _load(folder: folders.Folder, backend: str | None, device: str | None, threads: int) -> Backend:
    if backend not in (None, "onnx", "torch"):
        raise unknown("backend", backend, ("onnx", "torch"))
    if type(threads) is not int or not 0 <= threads <= MOST_THREADS:
        raise UsageError(f"threads is {threads}, expected 1 to {MOST_THREADS}, or none for as many as there are cores")
    if backend == "onnx" and device is not None:
        raise UsageError(f"device {device} is for the torch backend; the onnx backend runs on the CPU")
    if backend != "torch" and device is None and folder.has("decoder.onnx"):
        from bethink.backend.onnx import OnnxBackend

        return word_by_word(OnnxBackend.load(folder.path, threads=threads), folder.model)
    if backend == "onnx":
        raise ModelError(
            f"the model in {folder.path} has no ONNX graphs; make them with: bethink export {folder.path} --to DIR"
        )
    if not folder.has(folders.WEIGHTS):
        raise ModelError(
            f"the model in {folder.path} has no weights for torch, only ONNX graphs, which run on the CPU; leave the backend and the "
            "device out, or name a model made with: bethink export RUN --to DIR --weights"
        )
    with needs_extra("translating with torch", "train"):
        from bethink.backend.torch import TorchBackend
    return word_by_word(TorchBackend.load(folder, device, threads), folder.model)

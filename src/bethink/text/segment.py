"""The Segmenter: turns text in any chunks into words with their ids, and sentence boundaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bethink.errors import UsageError
from bethink.text.clean import LINE_END, Cleaner
from bethink.text.sentences import ends_clause, ends_sentence
from bethink.text.vocabulary import Vocabulary

SHORTEST_LIMIT = 8  # tokens; one character needs at most a word mark and four bytes


@dataclass(frozen=True, slots=True)
class Word:
    """A complete source word and its ids."""

    text: str
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Boundary:
    """A sentence has ended."""


class Segmenter:
    """Returns each word as soon as white space (or the end) shows that it is complete, and a Boundary after each sentence.

    The result depends on the text alone, not on how it was cut. A sentence ends at its punctuation or at a line end. Without either it
    is cut before it has more than `longest` tokens, at a comma from two thirds of that on.
    """

    def __init__(self, vocabulary: Vocabulary, longest: int = 120) -> None:
        if longest < SHORTEST_LIMIT:
            raise UsageError(f"the longest sentence is {longest} tokens, but must be at least {SHORTEST_LIMIT}")
        self._vocabulary = vocabulary
        self._longest = longest
        self._cleaner = Cleaner()
        self._length = 0  # tokens in the open sentence

    @property
    def settled(self) -> bool:
        """Whether every word fed so far is complete."""
        return self._cleaner.settled

    def feed(self, text: str) -> list[Word | Boundary]:
        """The words and boundaries that this text completes."""
        return list(self._events(self._cleaner.feed(text)))

    def finish(self) -> list[Word | Boundary]:
        """The remaining words and the boundary of an open sentence; resets the segmenter."""
        return [*self._events(self._cleaner.finish()), *self._close()]

    def _events(self, words: Iterable[str]) -> Iterator[Word | Boundary]:
        for text in words:
            if text == LINE_END:
                yield from self._close()
            else:
                for word in self._fitting(text):
                    yield from self._take(word)

    def _take(self, word: Word) -> Iterator[Word | Boundary]:
        if self._length + len(word.ids) > self._longest:
            yield from self._close()
        first = self._length == 0
        self._length += len(word.ids)
        yield word
        late = self._length * 3 >= self._longest * 2
        if self._length >= self._longest or ends_sentence(word.text, first=first) or (late and ends_clause(word.text)):
            yield from self._close()

    def _close(self) -> Iterator[Boundary]:
        if self._length:
            self._length = 0
            yield Boundary()

    def _fitting(self, text: str) -> Iterator[Word]:
        """The word, halved until no part has more tokens than a sentence may have."""
        ids = self._vocabulary.encode(text)
        if len(ids) <= self._longest or len(text) == 1:
            yield Word(text, ids)
        else:
            middle = len(text) // 2
            yield from self._fitting(text[:middle])
            yield from self._fitting(text[middle:])

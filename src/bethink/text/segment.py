"""The Segmenter: text that arrives in any chunks becomes words with their ids, and boundaries between sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bethink.errors import UsageError
from bethink.text.clean import LINE_END, Cleaner
from bethink.text.sentences import ends_clause, ends_sentence
from bethink.text.vocabulary import Vocabulary

SHORTEST_LIMIT = 8  # tokens: one character takes at most a word mark and four bytes


@dataclass(frozen=True, slots=True)
class Word:
    """One complete source word and the ids it is read as."""

    text: str
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Boundary:
    """A sentence has ended."""


class Segmenter:
    """Gives out each word as soon as white space (or the end) shows that it is complete, and a Boundary after each sentence.

    Events depend on the text alone, never on how it was cut. A sentence ends with its punctuation, with its line, or, in
    speech without punctuation, before it has more than `longest` tokens: at a comma from two thirds of that on.
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
        """Whether every word fed so far is complete, none half heard."""
        return self._cleaner.settled

    def feed(self, text: str) -> list[Word | Boundary]:
        """The events that this text completes."""
        return list(self._events(self._cleaner.feed(text)))

    def finish(self) -> list[Word | Boundary]:
        """The events that were waiting, and the end of an open sentence; after it the segmenter is as new."""
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
        """The word, halved as often as it takes for no part to have more tokens than a sentence may."""
        ids = self._vocabulary.encode(text)
        if len(ids) <= self._longest or len(text) == 1:
            yield Word(text, ids)
        else:
            middle = len(text) // 2
            yield from self._fitting(text[:middle])
            yield from self._fitting(text[middle:])

"""The Segmenter: turns text in any chunks into words with their ids, and sentence boundaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bethink.errors import UsageError
from bethink.text.clean import LINE_END, Cleaner
from bethink.text.copying import MOST_HELD, Beginning, Copier, is_capital
from bethink.text.glossary import TermFinder
from bethink.text.sentences import addresses, ends_clause, ends_sentence
from bethink.text.vocabulary import Vocabulary

SHORTEST_LIMIT = 8  # tokens; one character needs at most a word mark and four bytes


@dataclass(frozen=True, slots=True)
class Word:
    """A complete source word and the ids that the model reads; none in a sentence that is copied without the model."""

    text: str
    ids: tuple[int, ...]
    read_as: str | None = None  # what the model reads in place of the word, if that is something else
    copied: str | None = None  # what is shown where that comes out, for a word that is carried over
    term: bool = False  # whether that is the translation of a term in the glossary; then `text` may be several words
    number: str | None = None  # digits that the translation must have


@dataclass(frozen=True, slots=True)
class Boundary:
    """A sentence has ended."""


class Segmenter:
    """Returns each word as soon as white space (or the end) shows that it is complete, and a Boundary after each sentence.

    The result depends on the text alone, not on how it was cut. A sentence ends at its punctuation or at a line end, but not after an
    address: the model reads "Meine Damen und Herren! Wir …" with a comma, since it would make up how it goes on. Without either it
    is cut before it has more than `longest` tokens, at a comma from two thirds of that on. In Chinese, Japanese, Burmese and Khmer no
    space needs to follow a sentence: there, the next character shows that it is complete.
    """

    def __init__(
        self, vocabulary: Vocabulary, longest: int = 120, *, copier: Copier | None = None, by_line: bool = False
    ) -> None:
        """`copier` finds the words that are carried over rather than translated; with `by_line` only line ends end sentences."""
        if longest < SHORTEST_LIMIT:
            raise UsageError(f"the longest sentence is {longest} tokens, but must be at least {SHORTEST_LIMIT}")
        self._vocabulary = vocabulary
        self._longest = longest
        self._copier = copier if copier and copier.useful else None
        self._cleaner = Cleaner(sentences=not by_line)
        self._terms = TermFinder(self._copier.glossary) if self._copier and self._copier.glossary else None
        self._by_line = by_line
        self._held: Beginning | None = None  # words that wait until it is clear whether there is anything to translate
        self._length = 0  # tokens in the open sentence
        self._words_before: list[str] = []  # of the open sentence, from the last address on
        self._used: set[str] = set()  # stand-ins in the open sentence
        self._mentioned: set[str] = set()  # words of the open sentence that cannot serve as stand-ins
        self._capitals = False  # whether the word before was in capitals

    @property
    def settled(self) -> bool:
        """Whether every word fed so far is complete and returned."""
        return self._cleaner.settled and self._held is None and (self._terms is None or self._terms.settled)

    def feed(self, text: str) -> list[Word | Boundary]:
        """The words and boundaries that this text completes."""
        return list(self._events(self._cleaner.feed(text)))

    def finish(self) -> list[Word | Boundary]:
        """The remaining words and the boundary of an open sentence; resets the segmenter."""
        return list(self._events([*self._cleaner.finish(), LINE_END]))

    def _events(self, words: Iterable[str]) -> Iterator[Word | Boundary]:
        for text in self._terms.joined(words) if self._terms else words:
            yield from self._close() if text == LINE_END else self._take(text)

    def _take(self, text: str) -> Iterator[Word | Boundary]:
        """A word; at the beginning of a sentence it may have to wait until it is clear how it is read."""
        if self._length or self._copier is None:
            yield from self._add(text)
            return
        held = self._held = self._held or Beginning(self._copier, self._vocabulary)
        held.add(text)
        ends = ends_sentence(text, first=len(held.words) == 1) or len(held.words) == MOST_HELD
        if (ends and not self._by_line) or not held.unclear:
            yield from self._release()

    def _release(self) -> Iterator[Word | Boundary]:
        """The words held: a sentence that is copied, or the beginning of one that is translated."""
        held, self._held = self._held, None
        if self._copier is None or held is None:
            return
        if held.copied:
            yield from (Word(text, (), copied=self._copier.copy(text)) for text in held.words)
            yield Boundary()
            return
        self._capitals = is_capital(held.words[-1])  # the word after the first, or the first if it stands alone
        for place, text in enumerate(held.words):
            yield from self._take(text) if place else self._add(text)

    def _add(self, text: str) -> Iterator[Word | Boundary]:
        """A word of a sentence that is translated. If it does not fit, the sentence is cut and the word begins the next one."""
        words = list(self._words(text))
        address = (
            not self._by_line and text.endswith("!") and len(words) == 1 and addresses([*self._words_before, text])
        )
        if address and words[0].read_as is None:
            with_comma = text.rstrip("!") + ","
            words = [Word(text, self._vocabulary.encode(with_comma), with_comma)]
        if not words or (self._length and self._overflows(words[0])):
            yield from self._close()
            yield from self._take(text)
            return
        for word in words:
            if self._overflows(word):
                yield from self._close()
            first = self._length == 0
            self._length += len(word.ids)
            if word.copied is not None and word.read_as is not None:
                self._used.add(word.read_as)
            elif self._copier:
                self._mentioned.update(self._copier.mentioned(text))
            if any(map(str.isalpha, text)):
                self._capitals = is_capital(text)
            self._words_before.append(word.text)
            yield word
            if address:
                self._words_before = []
            elif self._ends(word.text, first):
                yield from self._close()

    def _overflows(self, word: Word) -> bool:
        return not self._by_line and self._length + len(word.ids) > self._longest

    def _ends(self, word: str, first: bool) -> bool:
        late = self._length * 3 >= self._longest * 2
        full = self._length >= self._longest
        return not self._by_line and (full or ends_sentence(word, first=first) or (late and ends_clause(word)))

    def _close(self) -> Iterator[Word | Boundary]:
        yield from self._release()
        if self._length:
            self._length, self._capitals = 0, False
            self._words_before = []
            self._used, self._mentioned = set(), set()
            yield Boundary()

    def _words(self, text: str) -> Iterator[Word]:
        """The word as the model reads it; nothing if it needs a stand-in and all are in use."""
        if self._copier is None:
            yield from self._fitting(text)
        elif parts := self._copier.parts(text, self._used):
            if stand_in := self._copier.stand_in(parts, self._used | self._mentioned):
                ids = self._vocabulary.encode(f"{parts.before}{stand_in}{parts.after}")
                yield Word(text, ids, stand_in, parts.copy, parts.term)
            elif self._by_line:
                yield from self._fitting(text)
        else:
            spelling = self._copier.cased(text, among_capitals=self._capitals)
            if spelling == text:
                yield from self._fitting(text)
            else:
                yield Word(text, self._vocabulary.encode(spelling), spelling)

    def _fitting(self, text: str) -> Iterator[Word]:
        """The word, halved until no part has more tokens than a sentence may have."""
        ids = self._vocabulary.encode(text)
        if len(ids) <= self._longest or len(text) == 1:
            yield Word(text, ids, number=self._copier.number(text) if self._copier else None)
        else:
            middle = len(text) // 2
            yield from self._fitting(text[:middle])
            yield from self._fitting(text[middle:])

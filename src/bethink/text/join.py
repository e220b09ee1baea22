"""The Joiner: turns target ids into text that only grows, by whole words with their spacing."""

from __future__ import annotations

from collections.abc import Sequence

from bethink.text.copying import missing, restored, stand_ins
from bethink.text.vocabulary import EOS, Vocabulary


class Joiner:
    """Returns a word once no further id can change it: with its last piece, or, if pieces mark the beginning of words, when the next
    word begins or the caller says that the word is complete.

    The joined results of push and finish equal `vocabulary.decode` of all ids. The first word of a sentence has no space before
    it; the end-of-sentence id, or `finish`, ends the sentence. Where a stand-in comes out, the word is shown that it stands for.
    """

    def __init__(self, vocabulary: Vocabulary, *, tidy: bool = False) -> None:
        """`tidy`: for tokenised vocabularies, attach punctuation as in ordinary text."""
        self._vocabulary = vocabulary
        self._tidy = tidy
        self._ids: list[int] = []
        self._shown = 0  # characters
        self._complete = False  # whether the word of the last token is
        self._copies: dict[str, str] = {}  # of this sentence: what to show for each stand-in
        self._missing: dict[str, str] = {}  # those that have not come out yet
        self._terms: set[str] = set()  # stand-ins for terms
        self._numbers: dict[str, None] = {}  # that this sentence must have, in their order
        self.copied: str | None = None  # what was copied by the last push or finish

    def expect(self, stand_in: str, copy: str, *, term: bool = False) -> None:
        """The source has a word that is carried over: show it where this stand-in comes out.

        A term begins with a capital at the beginning of the sentence.
        """
        self._copies[stand_in] = self._missing[stand_in] = copy
        if term:
            self._terms.add(stand_in)

    def expect_number(self, number: str) -> None:
        """The source has this number, which the model translates: if it does not come out, it follows at the end of the sentence."""
        self._numbers[number] = None

    def push(self, token: int, *, complete: bool = False) -> str:
        """The text that became final with this token: often nothing, else words with their spaces.

        `complete`: the ids to come will not continue the word of this token.
        """
        if token == EOS:
            return self.finish()
        self._ids.append(token)
        self._complete = complete
        known = self._vocabulary.decode if complete else self._vocabulary.settled
        return self._show(known(self._ids, tidy=self._tidy))

    def finish(self) -> str:
        """The rest of the text, with the words and numbers that should have come out and did not; resets the joiner."""
        text = self._vocabulary.decode(self._ids, tidy=self._tidy)
        rest = self._show(text)
        if left_out := [*self._missing.values(), *missing(self._numbers, restored(text, self._copies))]:
            lost = ", ".join(left_out)
            self.copied = f"{self.copied} {lost}" if self.copied else lost
            rest = f"{rest} ({lost})"
        self._ids, self._shown = [], 0
        self._copies, self._missing, self._terms, self._numbers = {}, {}, set(), {}
        return rest

    def preview(self, tokens: Sequence[int]) -> str:
        """The text that is not shown yet, if these tokens came next; nothing changes."""
        text = self._vocabulary.decode([*self._ids, *tokens], tidy=self._tidy)[self._shown :]
        return restored(text, self._copies) if self._copies else text

    @property
    def unshown(self) -> int:
        """The tokens of the word that is not shown yet, after a push that showed text."""
        if self._complete or self._vocabulary.marks_ends:
            return 0
        count = 0
        while count < len(self._ids) and not (count and self._vocabulary.opens_word(self._ids[-count])):
            count += 1
        return count

    def _show(self, text: str) -> str:
        fresh, first = text[self._shown :], self._shown == 0
        self._shown = max(self._shown, len(text))
        found = stand_ins(fresh, self._copies)
        self.copied = " ".join(self._copies[each] for each in found) or None
        for each in found:
            self._missing.pop(each, None)
        shown = restored(fresh, self._copies) if found else fresh
        return shown[:1].upper() + shown[1:] if first and found and fresh.startswith(tuple(self._terms)) else shown

"""The Joiner: turns target ids into text that only grows, by whole words with their spacing."""

from __future__ import annotations

from bethink.text.vocabulary import EOS, Vocabulary


class Joiner:
    """Returns a word once no further id can change it: with its last piece, or, if pieces mark the beginning of words, when the next
    word begins or whoever pushes says that the word is complete.

    The joined results of push and finish equal `vocabulary.decode` of all ids. The first word of a sentence has no space before
    it; the end-of-sentence id, or `finish`, ends the sentence.
    """

    def __init__(self, vocabulary: Vocabulary, *, tidy: bool = False) -> None:
        """`tidy`: for tokenised vocabularies, attach punctuation as in ordinary text."""
        self._vocabulary = vocabulary
        self._tidy = tidy
        self._ids: list[int] = []
        self._shown = 0  # characters

    def push(self, token: int, *, complete: bool = False) -> str:
        """The text that became final with this token: often nothing, else words with their spaces.

        `complete`: the ids to come will not continue the word of this token.
        """
        if token == EOS:
            return self.finish()
        self._ids.append(token)
        known = self._vocabulary.decode if complete else self._vocabulary.settled
        return self._show(known(self._ids, tidy=self._tidy))

    def finish(self) -> str:
        """The rest of the text; resets the joiner."""
        rest = self._show(self._vocabulary.decode(self._ids, tidy=self._tidy))
        self._ids, self._shown = [], 0
        return rest

    def _show(self, text: str) -> str:
        fresh = text[self._shown :]
        self._shown = max(self._shown, len(text))
        return fresh

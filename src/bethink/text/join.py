"""The Joiner: target ids become text that only ever grows, by whole words with their spacing."""

from __future__ import annotations

from bethink.text.vocabulary import EOS, Vocabulary


class Joiner:
    """Shows a word once nothing that may follow can change it: with its last piece, or, where pieces mark the beginning of words, when the
    next word begins.

    All that push and finish return, put together, is `vocabulary.decode` of the ids pushed. The first word of a sentence has
    no space before it; the end-of-sentence id, or `finish`, ends the sentence.
    """

    def __init__(self, vocabulary: Vocabulary, *, tidy: bool = False) -> None:
        """`tidy` puts punctuation where people expect it, where the vocabulary's text is tokenised."""
        self._vocabulary = vocabulary
        self._tidy = tidy
        self._ids: list[int] = []
        self._shown = 0  # characters

    def push(self, token: int) -> str:
        """The text that became final with this token: often nothing, then a word with the space before it."""
        if token == EOS:
            return self.finish()
        self._ids.append(token)
        return self._show(self._vocabulary.settled(self._ids, tidy=self._tidy))

    def finish(self) -> str:
        """What was held back; after it the joiner is as new."""
        rest = self._show(self._vocabulary.decode(self._ids, tidy=self._tidy))
        self._ids, self._shown = [], 0
        return rest

    def _show(self, text: str) -> str:
        fresh = text[self._shown :]
        self._shown = len(text)
        return fresh

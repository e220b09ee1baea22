"""The Joiner: target ids become text that only ever grows, by whole words with their spacing."""

from __future__ import annotations

from bethink.text.vocabulary import EOS, Vocabulary


class Joiner:
    """Holds a word back until the next one has begun, so that nothing shown has to be changed; a token that is a word goes out.

    Tidy punctuation is a word of its own that comes without a space, so even then nothing has to wait.

    All that push and finish return, put together, is `vocabulary.decode` of the ids pushed. The first word of a sentence has
    no space before it; the end-of-sentence id, or `finish`, ends the sentence.
    """

    def __init__(self, vocabulary: Vocabulary, *, tidy: bool = False) -> None:
        """`tidy` puts punctuation where people expect it, where the vocabulary's text is tokenised."""
        self._vocabulary = vocabulary
        self._tidy = tidy
        self._at_once = vocabulary.kind == "words"
        self._ids: list[int] = []
        self._shown = 0  # characters

    def push(self, token: int) -> str:
        """The text that became final with this token: often nothing, then a word with the space before it."""
        if token == EOS:
            return self.finish()
        self._ids.append(token)
        text = self._vocabulary.decode(self._ids, tidy=self._tidy)
        return self._show(text if self._at_once else text[: max(text.rfind(" "), 0)])

    def finish(self) -> str:
        """What was held back; after it the joiner is as new."""
        rest = self._show(self._vocabulary.decode(self._ids, tidy=self._tidy))
        self._ids, self._shown = [], 0
        return rest

    def _show(self, text: str) -> str:
        fresh = text[self._shown :]
        self._shown = len(text)
        return fresh

"""Cuts the translation of a whole talk into pieces that belong to the sentences of its reference.

A talk is translated as one text, so its sentences need not be those of the reference. As SoftSegmenter of OmniSTEval 0.1.10 does
(Polák et al. 2025, word level, without a tokeniser), the words of both are aligned in order so that the sum of similarities is
largest, and each word goes to the sentence of its partner. The similarity of two words is that of their sets of characters
(Jaccard); punctuation that stands alone is only similar to its like. Leaving a word without a partner costs nothing.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bethink.errors import DataError

PUNCTUATION = frozenset(".!?,;:-()。！？，；：—（）ー")
MOST_CELLS = 1_000_000_000  # of the table of one talk, one byte each: 30,000 words on both sides, more than three hours
_MATCH, _SKIP_REFERENCE, _SKIP_WORD = 0, 1, 2
Numbers = npt.NDArray[np.float64]
Cells = npt.NDArray[np.uint8]


def resegment(words: Sequence[str], references: Sequence[str], where: str = "the talk") -> list[list[int]]:
    """For each reference sentence the places of the words that belong to it; they rise from sentence to sentence.

    A punctuation mark before the first reference word finds no sentence and is left out, as in OmniSTEval.
    """
    found: list[list[int]] = [[] for _ in references]
    wanted = [(word, number) for number, line in enumerate(references) for word in line.split()]
    if (len(words) + 1) * (len(wanted) + 1) > MOST_CELLS:
        raise DataError(
            f"{where} has {len(words)} words and its reference {len(wanted)}, too many to align; cut it with an empty line"
        )
    similar = _Similarity([word for word, _ in wanted], words)
    for place, partner in enumerate(_partners(similar)):
        if partner is not None:
            found[wanted[partner][1]].append(place)
    return found


class _Similarity:
    """The similarities of all words of the reference to all words of a translation, one row at a time."""

    def __init__(self, references: Sequence[str], words: Sequence[str]) -> None:
        left, right = [_folded(word) for word in references], [_folded(word) for word in words]
        kinds = {kind: number for number, kind in enumerate(dict.fromkeys(right))}
        letters = {
            letter: number for number, letter in enumerate(sorted({c for word in (*left, *right) for c in word}))
        }
        self._sets = np.array([_letters(kind, letters) for kind in kinds]).reshape(len(kinds), len(letters))
        self._sizes = self._sets.sum(axis=1)
        self._marks = np.array([kind in PUNCTUATION for kind in kinds], dtype=bool)
        self._of = np.array([kinds[word] for word in right], dtype=np.intp)
        self._letters, self.references, self.words = letters, left, len(right)
        self._rows: dict[str, Numbers] = {}

    def row(self, place: int) -> Numbers:
        """Of the reference word at this place."""
        word = self.references[place]
        if word not in self._rows:
            letters = _letters(word, self._letters)
            common = self._sets @ letters
            row = common / (self._sizes + letters.sum() - common)
            self._rows[word] = np.where(self._marks == (word in PUNCTUATION), row, -np.inf)
        return self._rows[word][self._of]


def _folded(word: str) -> str:
    return unicodedata.normalize("NFKC", word).lower()


def _letters(word: str, letters: dict[str, int]) -> Numbers:
    row = np.zeros(len(letters))
    row[[letters[letter] for letter in word]] = 1
    return row


def _table(similar: _Similarity) -> Cells:
    """How the best alignment of each pair of prefixes ends; of equally good ways the first: match, skip reference, skip word."""
    cells = np.empty((len(similar.references) + 1, similar.words + 1), dtype=np.uint8)
    cells[0], cells[:, 0] = _SKIP_WORD, _SKIP_REFERENCE
    best = np.zeros(similar.words + 1)
    for place in range(len(similar.references)):
        match = best[:-1] + similar.row(place)
        new = np.maximum.accumulate(np.concatenate([[0.0], np.maximum(match, best[1:])]))
        here = np.where(new[1:] == best[1:], _SKIP_REFERENCE, _SKIP_WORD)
        cells[place + 1, 1:] = np.where(new[1:] == match, _MATCH, here)
        best = new
    return cells


def _partners(similar: _Similarity) -> list[int | None]:
    """For each word of the translation the reference word that decides its sentence."""
    cells = _table(similar)
    i, j = len(similar.references), similar.words
    pairs: list[tuple[int | None, int | None]] = []  # of the alignment, from its end: reference word, word
    while i or j:
        step = cells[i, j] if i and j else (_SKIP_REFERENCE if i else _SKIP_WORD)
        i, j = i - (step != _SKIP_WORD), j - (step != _SKIP_REFERENCE)
        pairs.append((i if step != _SKIP_WORD else None, j if step != _SKIP_REFERENCE else None))
    return _filled(pairs[::-1], similar)


def _filled(pairs: Sequence[tuple[int | None, int | None]], similar: _Similarity) -> list[int | None]:
    """A word without a partner takes that of a neighbour: the next reference word if it is more similar, else the one before."""
    partners: list[int | None] = [None] * similar.words
    following: list[int | None] = [None] * len(pairs)
    for n in range(len(pairs) - 2, -1, -1):
        following[n] = pairs[n + 1][0] if pairs[n + 1][0] is not None else following[n + 1]
    last: int | None = None
    ahead = False  # whether the words up to the next reference word go with it
    for n, (reference, word) in enumerate(pairs):
        if reference is not None:
            last, ahead = reference, False
        elif word is not None and not ahead:
            coming, near = following[n], -np.inf if last is None else similar.row(last)[word]
            ahead = coming is not None and bool(similar.row(coming)[word] > near)
        if word is not None:
            partners[word] = following[n] if ahead else last
    return partners

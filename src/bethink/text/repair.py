"""Corrections: where an early translation lost a negation or a number, or invented a negation, the sentence is put right afterwards.

What was written stays. The source, what was said and the translation of the whole sentence are compared: if source and whole agree
and what was said does not, the part of the whole sentence that differs is the correction. A sentence in which source and
translation agree costs nothing: the whole sentence is translated only where they do not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bethink.text.languages import Language, load

SURE = 0.55  # mean probability of its tokens from which on the translation of a whole sentence is trusted; chosen on development text
SHORT = 20  # words of a correction that need not be cut
LEAST = 5  # words that a part must have to be understood
_CLAUSES = re.compile(r"(?<=[,;:.!?])\s+")


@dataclass(frozen=True)
class Repair:
    """Compares sentences of two languages."""

    source: Language
    target: Language

    @classmethod
    def of(cls, source: str, target: str) -> Repair | None:
        """For two language codes; None if one of the languages is not known."""
        one, other = load(source), load(target)
        return cls(one, other) if one and other else None

    def doubtful(self, source: str, said: str) -> bool:
        """Whether the translation seems to deny something else, or lacks a number."""
        return self._differs(source, said) or bool(self._lost(source, said))

    def correction(self, source: str, said: str, whole: str, sure: float = 1.0) -> str | None:
        """What to add to a doubtful translation; None if the whole sentence is no better, or the model is not sure of it."""
        if sure < SURE:
            return None
        if self._differs(source, said) and self.target.negated(whole) is self.source.negated(source):
            places = self.target.negators(whole)
        elif numbers := self._lost(source, said) & self.target.numbers(whole):
            places = self._places(whole, numbers)
        else:
            return None
        return _part(whole, places)

    def _differs(self, source: str, said: str) -> bool:
        denied, told = self.source.negated(source), self.target.negated(said)
        surely = denied is not None and told is not None and denied is not told
        some = self.target.negation.search(said.lower())  # a negation after all, which may be a harmless one: not only
        return surely and not (denied and some)

    def _lost(self, source: str, said: str) -> set[float]:
        return self.source.numbers(source) - self.target.numbers(said)

    def _places(self, whole: str, numbers: set[float]) -> list[int]:
        """Where the words with these numbers stand."""
        words = re.finditer(r"\S+(?:\s+(?:hundred|thousand|million|billion))?", whole)
        return [word.start() for word in words if self.target.numbers(word[0]) & numbers]


def _part(whole: str, places: list[int]) -> str:
    """A short sentence as it is, of a long one the clauses at these places."""
    if len(whole.split()) <= SHORT or not places:
        return whole
    begin, clauses = 0, []
    for clause in _CLAUSES.split(whole):
        begin = whole.index(clause, begin)
        clauses.append((begin, begin + len(clause)))
    first = next(n for n, (_, end) in enumerate(clauses) if places[0] < end)
    last = next(n for n, (_, end) in enumerate(clauses) if places[-1] < end)
    while len(whole[clauses[first][0] : clauses[last][1]].split()) < LEAST:
        first, last = (first - 1, last) if first else (first, last + 1)
    return whole[clauses[first][0] : clauses[last][1]].rstrip(",;:")

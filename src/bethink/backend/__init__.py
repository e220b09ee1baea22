"""The interface between the engine and the code that computes: ids and small arrays in, candidates and degrees out.

A backend holds one immutable model and one slot per open stream, with the caches of what the stream has read and written. Results are
exact: they do not depend on which other slots are in the same call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from bethink.policy import Degrees


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive decoder positions to compute for one slot.

    Row n consumes tokens[n] at position start + n and sees the first prefixes[n] source tokens. It attends to the rows
    before it: those of this request and, before `start`, those computed last. It overwrites the cache at its position.
    """

    slot: int
    start: int
    tokens: tuple[int, ...]
    prefixes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """The result for one position: the next token, its probability, d of every source token it saw, and its stability."""

    candidate: int
    confidence: float
    degrees: Degrees  # empty for a model without capsules
    stability: float | None = None  # the judge's probability that the token stays right, if the model has a judge
    apart: Row | None = None  # the likeliest token that leaves the word before it as it is, where that is another one
    attention: Degrees | None = None  # of every source token it saw, from graphs of a model without capsules

    def beside(self, apart: Row) -> Row:
        """This row with the other beside it, if that has another token."""
        return self if apart.candidate == self.candidate else replace(self, apart=apart)


class Backend(Protocol):
    @property
    def causal(self) -> bool:
        """Whether source tokens can be read one by one; otherwise `read` gets a whole sentence at once."""

    @property
    def capsules(self) -> bool:
        """Whether rows carry translation degrees."""

    @property
    def parts_words(self) -> bool:
        """Whether rows know which tokens leave the word before them as it is (`Row.apart`).

        Only then can a word be shown with its last token, if the vocabulary marks where words begin but not where they end.
        """

    def open(self) -> int:
        """A free slot, empty."""

    def close(self, slot: int) -> None: ...

    def read(self, requests: Sequence[tuple[int, Sequence[int]]]) -> None:
        """Append source ids to slots, each slot at most once per call. Nothing follows EOS."""

    def step(self, requests: Sequence[Rows]) -> list[list[Row]]:
        """Compute decoder rows; each slot at most once per call. A backend may return fewer rows than asked for, at least one."""

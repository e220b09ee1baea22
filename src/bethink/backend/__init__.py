"""The seam between the engine and whatever computes: ids and small arrays in, candidates and degrees out.

A backend holds one model, immutable, and slots, one per stream in flight, each with the caches of what the stream has read
and written. Everything is exact: a slot's results do not depend on who shares the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bethink.policy import Degrees


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive decoder positions to compute for one slot.

    Row n consumes tokens[n] at position start + n and sees the first prefixes[n] source tokens. It attends to the rows
    before it: those of this request and, before `start`, those last computed. What it leaves in the caches overwrites
    whatever stood at its position.
    """

    slot: int
    start: int
    tokens: tuple[int, ...]
    prefixes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """What the model says at one position: the next token, its probability, d of every source token it saw, and a judgment."""

    candidate: int
    confidence: float
    degrees: Degrees  # empty for a model without capsules
    stability: float | None = None  # how likely more source would not change the token, if the model can judge that


class Backend(Protocol):
    @property
    def causal(self) -> bool:
        """Whether source tokens can be read one by one; otherwise a sentence is given to `read` once, whole."""

    @property
    def capsules(self) -> bool:
        """Whether rows carry translation degrees."""

    def open(self) -> int:
        """A free slot, empty."""

    def close(self, slot: int) -> None: ...

    def read(self, requests: Sequence[tuple[int, Sequence[int]]]) -> None:
        """Append source ids to slots, each slot at most once per call. Nothing follows EOS."""

    def step(self, requests: Sequence[Rows]) -> list[list[Row]]:
        """Compute decoder rows; each slot at most once per call. Of several rows a backend may leave out the last ones."""

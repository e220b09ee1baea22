"""Models of other tools begin with tokens of their own: a tag before every source, and one or two ids before every translation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bethink.backend import Backend, Row, Rows


class Prompted:
    """Implements `backend.Backend` over one that knows nothing of prompts.

    `begin` replaces EOS as the first input of the decoder; `tag` stands before every source. Neither is seen from outside.
    """

    def __init__(self, inner: Backend, begin: Sequence[int], tag: Sequence[int]) -> None:
        self._inner = inner
        self.causal, self.capsules, self.parts_words = inner.causal, inner.capsules, inner.parts_words
        self._begin, self._tag = tuple(begin), tuple(tag)
        self._fresh: set[int] = set()  # slots that have read nothing

    def open(self) -> int:
        slot = self._inner.open()
        self._fresh.add(slot)
        return slot

    def close(self, slot: int) -> None:
        self._fresh.discard(slot)
        self._inner.close(slot)

    def read(self, requests: Sequence[tuple[int, Sequence[int]]]) -> None:
        self._inner.read([(slot, [*self._tag, *ids] if slot in self._fresh else ids) for slot, ids in requests])
        self._fresh.difference_update(slot for slot, _ in requests)

    def step(self, requests: Sequence[Rows]) -> list[list[Row]]:
        answers = self._inner.step([self._inside(request) for request in requests])
        return [
            [self._without_tag(row) for row in (rows if request.start else rows[len(self._begin) - 1 :])]
            for request, rows in zip(requests, answers, strict=True)
        ]

    def _inside(self, request: Rows) -> Rows:
        """The rows as the backend inside numbers them."""
        more, prefixes = len(self._begin) - 1, tuple(prefix + len(self._tag) for prefix in request.prefixes)
        if request.start:
            return replace(request, start=request.start + more, prefixes=prefixes)
        return replace(request, tokens=self._begin + request.tokens[1:], prefixes=(prefixes[0],) * more + prefixes)

    def _without_tag(self, row: Row) -> Row:
        apart = self._without_tag(row.apart) if row.apart else None
        attention = None if row.attention is None else row.attention[len(self._tag) :]
        return replace(row, degrees=row.degrees[len(self._tag) :], apart=apart, attention=attention)

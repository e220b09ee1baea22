"""Models of other tools, read word by word.

They may begin with tokens of their own: a tag before every source, and one or two ids before every translation. `Prompted` adds these.

A bidirectional encoder computes every source token from all others, so one more token changes all of them. `Reencode` shows the model
each source prefix as it would see a whole sentence: every row is what the model computes from two texts, the source tokens read so far
and the target tokens written so far, both from the beginning. After a READ, the prefix is encoded again, and the rows of the written
tokens are computed again with it, in the same call as the new row. This is done only when a row is asked for, once for all streams of
the call, so reading several tokens in a row costs one encoding.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bethink.backend import Backend, Row, Rows
from bethink.model.config import ModelConfig


def word_by_word(backend: Backend, config: ModelConfig) -> Backend:
    """A backend that reads word by word: the given one, if its encoder is causal and it has no prompts of its own."""
    plain = (config.begin, config.tag) == (ModelConfig.begin, ModelConfig.tag)
    prompted = backend if plain else Prompted(backend, config.begin, config.tag)
    return prompted if backend.causal else Reencode(prompted)


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


@dataclass
class _Slot:
    inner: int  # the slot of the backend inside
    source: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)  # the decoder's inputs
    encoded: int = 0  # source tokens that the slot inside has read


class Reencode:
    """Implements `backend.Backend` over one that reads whole sentences."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self.causal, self.capsules, self.parts_words = True, inner.capsules, inner.parts_words
        self._slots: dict[int, _Slot] = {}
        self._numbers = itertools.count()
        self.encoded = 0  # source tokens encoded
        self.repeated = 0  # rows computed again

    def open(self) -> int:
        number = next(self._numbers)
        self._slots[number] = _Slot(self._inner.open())
        return number

    def close(self, slot: int) -> None:
        self._inner.close(self._slots.pop(slot).inner)

    def read(self, requests: Sequence[tuple[int, Sequence[int]]]) -> None:
        for slot, ids in requests:
            self._slots[slot].source += ids

    def step(self, requests: Sequence[Rows]) -> list[list[Row]]:
        stale = [request for request in requests if self._slots[request.slot].encoded != request.prefixes[0]]
        self._encode(stale)
        again = {request.slot for request in stale}
        # only rows with the same prefix can be computed together; what follows is left to the next call
        counts = [sum(prefix == request.prefixes[0] for prefix in request.prefixes) for request in requests]
        asked = zip(requests, counts, strict=True)
        answers = self._inner.step([self._inside(request, count, request.slot in again) for request, count in asked])
        return [rows[-count:] for count, rows in zip(counts, answers, strict=True)]

    def _encode(self, requests: Sequence[Rows]) -> None:
        """Encode the prefixes of these requests, each in a new slot inside, opened before the old one is closed to keep its memory."""
        fresh = []
        for request in requests:
            slot, prefix = self._slots[request.slot], request.prefixes[0]
            slot.inner, old = self._inner.open(), slot.inner
            self._inner.close(old)
            slot.encoded = prefix
            fresh.append((slot.inner, slot.source[:prefix]))
            self.encoded += prefix
        if fresh:
            self._inner.read(fresh)

    def _inside(self, request: Rows, count: int, again: bool) -> Rows:
        """So many rows as they are asked for, or all from the first on if the source has changed."""
        slot = self._slots[request.slot]
        slot.written[request.start :] = request.tokens[:count]
        start = 0 if again else request.start
        tokens = tuple(slot.written[start:])
        self.repeated += request.start - start
        return Rows(slot.inner, start, tokens, request.prefixes[:1] * len(tokens))

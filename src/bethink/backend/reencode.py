"""Bidirectional encoders, read word by word: the model sees each source prefix as it would see a whole sentence.

A bidirectional encoder computes every source token from all others, so one more token changes all of them. Here every row is what the
model computes from two texts: the source tokens read so far and the target tokens written so far, both from the beginning. After a
READ, the prefix is encoded again, and the rows of the written tokens are computed again with it, in the same call as the new row. This
is done only when a row is asked for, once for all streams of the call, so reading several tokens in a row costs one encoding.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from bethink.backend import Backend, Row, Rows
from bethink.backend.prompted import Prompted
from bethink.model.config import ModelConfig


def word_by_word(backend: Backend, config: ModelConfig) -> Backend:
    """A backend that reads word by word: the given one, if its encoder is causal and it has no prompts of its own."""
    plain = (config.begin, config.tag) == (ModelConfig.begin, ModelConfig.tag)
    prompted = backend if plain else Prompted(backend, config.begin, config.tag)
    return prompted if backend.causal else Reencode(prompted)


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
        answers = self._inner.step([self._inside(request, request.slot in again) for request in requests])
        return [self._outside(request, rows) for request, rows in zip(requests, answers, strict=True)]

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

    def _inside(self, request: Rows, again: bool) -> Rows:
        """The rows as they are asked for, or all from the first on if the source has changed.

        Only rows with the same prefix can be computed together; what follows is left to the next call.
        """
        slot = self._slots[request.slot]
        count = sum(prefix == request.prefixes[0] for prefix in request.prefixes)
        slot.written[request.start :] = request.tokens[:count]
        start = 0 if again else request.start
        tokens = tuple(slot.written[start:])
        self.repeated += request.start - start
        return Rows(slot.inner, start, tokens, request.prefixes[:1] * len(tokens))

    def _outside(self, request: Rows, rows: list[Row]) -> list[Row]:
        count = sum(prefix == request.prefixes[0] for prefix in request.prefixes)
        return rows[-count:]

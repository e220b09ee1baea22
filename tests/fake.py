"""A backend without a network: candidates, probabilities and degrees are a hash of what a row may depend on, and nothing else.

Whatever the engine does — reuse, speculation, batching — a row must come out as if it had been computed from its whole history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from bethink.backend import Row, Rows
from bethink.text import EOS


class FakeBackend:
    causal = True
    capsules = True
    parts_words = True

    def __init__(
        self,
        seed: int = 0,
        vocabulary: int = 12,
        ending: float = 0.1,
        leaving: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """`leaving`: which tokens leave the word before them as it is; a row whose candidate does not has another one apart."""
        self.seed, self.vocabulary, self.ending, self.leaving = seed, vocabulary, ending, leaving
        self.sources: dict[int, list[int]] = {}
        self.history: dict[int, list[tuple[int, int]]] = {}
        self.calls: list[int] = []
        self.most = 0  # slots open at a time
        self._next = 0

    def open(self) -> int:
        self._next += 1
        self.sources[self._next], self.history[self._next] = [], []
        self.most = max(self.most, len(self.sources))
        return self._next

    def close(self, slot: int) -> None:
        del self.sources[slot], self.history[slot]

    def read(self, requests: Sequence[tuple[int, Sequence[int]]]) -> None:
        for slot, ids in requests:
            self.sources[slot] += ids

    def step(self, requests: Sequence[Rows]) -> list[list[Row]]:
        self.calls.append(len(requests))
        assert len({request.slot for request in requests}) == len(requests)
        return [self._rows(request) for request in requests]

    def _rows(self, request: Rows) -> list[Row]:
        history = self.history[request.slot]
        assert request.start <= len(history), "a row needs all rows before it"
        del history[request.start :]
        rows = []
        for token, prefix in zip(request.tokens, request.prefixes, strict=True):
            history.append((token, prefix))
            assert prefix <= len(self.sources[request.slot]), "a row may not see what was not read"
            rows.append(self.row(self.sources[request.slot][:prefix], history))
        return rows

    def row(self, source: Sequence[int], history: Sequence[tuple[int, int]]) -> Row:
        digest = hashlib.sha256(repr((self.seed, list(source), list(history))).encode()).digest()
        chance = np.random.default_rng(list(digest[:16]))
        candidate = EOS if chance.random() < self.ending else int(chance.integers(3, self.vocabulary))
        confidence, degrees = float(chance.random()), chance.random(len(source)).astype(np.float32)
        row = Row(candidate, confidence, degrees, float(chance.random()))
        if self.leaving(candidate):
            return row
        others = [token for token in range(3, self.vocabulary) if self.leaving(token)]
        return row.beside(Row(int(chance.choice([EOS, *others])), confidence / 2, degrees, float(chance.random())))

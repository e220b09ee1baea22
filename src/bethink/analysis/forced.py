"""Forced decoding: a given target, along a fixed path or along the path that a policy takes.

For a policy the real engine runs over a backend that answers with the given words instead of the model's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bethink.analysis.gold import Gold
from bethink.backend import Backend, Row, Rows
from bethink.engine import Engine
from bethink.policy import Degrees, Policy
from bethink.text import EOS
from bethink.trace import Step

if TYPE_CHECKING:
    from bethink.translator import Translator

BATCH = 64  # sentences in flight


@dataclass(frozen=True)
class Weighed:
    """What is known when a target token is weighed: the row that proposes it, and the row after it."""

    row: Row
    following: Row
    read: int

    @property
    def gain(self) -> Degrees:
        return self.following.degrees - self.row.degrees


def wait(k: int | None, source: int, target: int) -> list[int]:
    """The wait-k path g(t) = min(k + t - 1, I) for t = 1 …; without k, the whole source."""
    return [source if k is None else min(k + t, source) for t in range(target)]


def weigh(translator: Translator, pairs: Sequence[Gold], k: int | None) -> list[list[Weighed]]:
    """Every target token of every pair, weighed as post-evaluation does along the wait-k path.

    The row at a token's position proposes it, the row after it evaluates it; both see what has been read at that time. Earlier
    positions keep the prefix they were written with.
    """
    found: list[list[Weighed]] = [[] for _ in pairs]
    # Batches hold sentences of similar length, because the longest sets the cost of all.
    order = sorted(range(len(pairs)), key=lambda n: len(pairs[n].target.ids))
    for begin in range(0, len(pairs), BATCH):
        chosen = order[begin : begin + BATCH]
        for n, weighed in zip(chosen, _weigh(translator.backend, [pairs[n] for n in chosen], k), strict=True):
            found[n] = weighed
    return found


def _weigh(backend: Backend, pairs: Sequence[Gold], k: int | None) -> list[list[Weighed]]:
    inputs = [(EOS, *pair.target.ids) for pair in pairs]
    paths = [wait(k, len(pair.source.ids) + 1, len(tokens)) for pair, tokens in zip(pairs, inputs, strict=True)]
    found: list[list[Weighed]] = [[] for _ in pairs]
    slots = [backend.open() for _ in pairs]
    try:
        backend.read([(slot, [*pair.source.ids, EOS]) for slot, pair in zip(slots, pairs, strict=True)])
        for t in range(max(map(len, inputs)) - 1):
            moving = [n for n, tokens in enumerate(inputs) if t + 1 < len(tokens)]
            requests = [Rows(slots[n], t, inputs[n][t : t + 2], (paths[n][t],) * 2) for n in moving]
            for n, rows in zip(moving, backend.step(requests), strict=True):
                found[n].append(Weighed(rows[0], rows[-1], paths[n][t]))
    finally:
        for slot in slots:
            backend.close(slot)
    return found


class Given:
    """A backend that replaces every candidate by the given word and leaves the rest as the model computes it.

    Only a premature end of the sentence is not replaced, because every policy reads on then.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.causal, self.capsules, self.parts_words = backend.causal, backend.capsules, False
        self._targets: dict[int, Sequence[int]] = {}
        self._sources: dict[int, list[int]] = {}

    def give(self, slot: int, target: Sequence[int]) -> None:
        self._targets[slot] = (*target, EOS)

    def open(self) -> int:
        slot = self._backend.open()
        self._sources[slot] = []
        return slot

    def close(self, slot: int) -> None:
        self._backend.close(slot)
        self._targets.pop(slot, None)
        del self._sources[slot]

    def read(self, requests: Sequence[tuple[int, Sequence[int]]]) -> None:
        for slot, ids in requests:
            self._sources[slot] += ids
        self._backend.read(requests)

    def step(self, requests: Sequence[Rows]) -> list[list[Row]]:
        answers = self._backend.step(requests)
        return [
            [self._given(request, n, row) for n, row in enumerate(rows)]
            for request, rows in zip(requests, answers, strict=True)
        ]

    def _given(self, request: Rows, n: int, row: Row) -> Row:
        source, target = self._sources[request.slot], self._targets[request.slot]
        unfinished = request.prefixes[n] < len(source) or source[-1] != EOS
        if row.candidate == EOS and unfinished:
            return row
        return replace(row, candidate=target[min(request.start + n, len(target) - 1)])


def follow(translator: Translator, pairs: Sequence[Gold], policies: Sequence[Policy]) -> Iterator[list[Step]]:
    """The steps that policies take when the target words are given: one policy and one list of steps for each pair."""
    backend = Given(translator.backend)
    chosen = list(zip(pairs, policies, strict=True))
    for begin in range(0, len(chosen), BATCH):
        engine = Engine(backend, batch=BATCH)
        streams = []
        for pair, policy in chosen[begin : begin + BATCH]:
            stream = engine.open(policy, translator.target)
            backend.give(stream.slot, pair.target.ids)
            for word in pair.source.words:
                engine.feed(stream, word)
            engine.close(stream)
            streams.append(stream)
        engine.run()
        yield from (stream.take() for stream in streams)


def rise(gain: Degrees) -> tuple[float, float]:
    """The largest rise of any source token's degree, and the sum of all rises."""
    up = np.maximum(gain, 0)
    return (float(up.max()), float(up.sum())) if len(up) else (0.0, 0.0)

"""Adaptive-wait-k as first published: one model per lag, each with its own caches, behind the interface of one backend.

The model for a row is chosen by its lag (source tokens read minus target tokens written); once the whole source is read, it is the
last model. A model first computes the rows that other models computed since it was used last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bethink.backend import Backend, Row, Rows
from bethink.text import EOS


@dataclass
class _Slot:
    inner: list[int]  # the slot in each model
    encoded: list[int]  # source tokens that each model has read
    computed: list[list[tuple[int, int]]]  # the path as each model computed it last
    source: list[int] = field(default_factory=list)
    path: list[tuple[int, int]] = field(default_factory=list)  # (token, prefix) of each position


class PerLag:
    """models[0] serves lag 1, models[1] lag 2, …; the last serves every larger lag. A model may serve several lags."""

    def __init__(self, models: Sequence[Backend]) -> None:
        assert models, "it holds at least one model"
        self._models = list(dict.fromkeys(models))
        self._serving = [self._models.index(model) for model in models]  # which of them, by lag
        self._slots: dict[int, _Slot] = {}
        self.causal = all(model.causal for model in models)
        self.capsules = False  # the degrees before and after a word could come from two models
        self.parts_words = all(model.parts_words for model in models)

    def open(self) -> int:
        inner = [model.open() for model in self._models]
        self._slots[inner[0]] = _Slot(inner, [0] * len(inner), [[] for _ in inner])
        return inner[0]

    def close(self, slot: int) -> None:
        for model, inner in zip(self._models, self._slots.pop(slot).inner, strict=True):
            model.close(inner)

    def read(self, requests: Sequence[tuple[int, Sequence[int]]]) -> None:
        for slot, ids in requests:
            self._slots[slot].source += ids

    def step(self, requests: Sequence[Rows]) -> list[list[Row]]:
        chosen: dict[int, list[tuple[int, Rows]]] = {}
        for n, request in enumerate(requests):
            which = self._choose(request, 0)
            # the first row that another model has to compute
            count = next((row for row in range(len(request.tokens)) if self._choose(request, row) != which), None)
            own = Rows(request.slot, request.start, request.tokens[:count], request.prefixes[:count])
            chosen.setdefault(which, []).append((n, own))
        answers: dict[int, list[Row]] = {}
        for which, group in chosen.items():
            self._encode(which, [request.slot for _, request in group])
            caught_up = [self._catch_up(which, request) for _, request in group]
            for (n, request), rows in zip(group, self._models[which].step(caught_up), strict=True):
                answers[n] = rows[-len(request.tokens) :]
        return [answers[n] for n in range(len(requests))]

    def _choose(self, request: Rows, row: int) -> int:
        source, prefix = self._slots[request.slot].source, request.prefixes[row]
        if prefix == len(source) and source[-1] == EOS:
            return self._serving[-1]
        return self._serving[min(max(prefix - request.start - row, 1), len(self._serving)) - 1]

    def _encode(self, which: int, slots: Sequence[int]) -> None:
        fresh = []
        for number in slots:
            slot = self._slots[number]
            if ids := slot.source[slot.encoded[which] :]:
                fresh.append((slot.inner[which], ids))
                slot.encoded[which] = len(slot.source)
        if fresh:
            self._models[which].read(fresh)

    def _catch_up(self, which: int, request: Rows) -> Rows:
        """The request, extended to start at the first position that this model has not computed along the stream's path."""
        slot = self._slots[request.slot]
        slot.path[request.start :] = zip(request.tokens, request.prefixes, strict=True)
        done = slot.computed[which]
        agree = next(
            (p for p, (a, b) in enumerate(zip(done, slot.path, strict=False)) if a != b), min(len(done), len(slot.path))
        )
        start = min(agree, request.start)
        slot.computed[which] = list(slot.path)
        tokens, prefixes = zip(*slot.path[start:], strict=True)
        return Rows(slot.inner[which], start, tokens, prefixes)

"""Does the translation degree know? Measured on sentence pairs whose words are aligned, with the target given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from bethink.backend import Row, Rows
from bethink.errors import DataError, ModelError
from bethink.text import EOS

if TYPE_CHECKING:
    from bethink.translator import Translator

Floats = npt.NDArray[np.float64]


class Aligned(Protocol):
    """A sentence pair and which words translate each other, as (source, target), counted from 0."""

    @property
    def source(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def alignment(self) -> Iterable[tuple[int, int]]: ...


@dataclass(frozen=True)
class Knowledge:
    """How well d tells translated source words from those still to come."""

    auc: float  # chance that a translated token has a higher d than an untranslated one
    after: float  # mean d of a source token once all its translation is written
    before: float  # mean d of a source token none of whose translation is written
    pairs: int  # observations


def degree_knowledge(translator: Translator, pairs: Iterable[Aligned], k: int | None = None) -> Knowledge:
    """Along the wait-k path, or with the whole source readable; tokens whose translation is half written do not count."""
    if not translator.backend.capsules:
        raise ModelError(
            f"model {translator.name} has no capsules, so no translation degree; use one of the PED system"
        )
    after: list[float] = []
    before: list[float] = []
    for pair in pairs:
        source, target = _tokens(translator, pair)
        rows = force(translator, source, target, k)
        for token, positions in _translations(source, target, pair.alignment).items():
            for t, row in enumerate(rows):
                if token < len(row.degrees) and (t > max(positions) or t <= min(positions)):
                    (after if t > max(positions) else before).append(float(row.degrees[token]))
    if not after or not before:
        raise DataError("no aligned words to look at; expected sentence pairs with alignments")
    return Knowledge(
        auc(np.array(after), np.array(before)), float(np.mean(after)), float(np.mean(before)), len(after) + len(before)
    )


def force(
    translator: Translator, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]], k: int | None = None
) -> list[Row]:
    """What the model says at every position of a given target, along the wait-k path or with the whole source."""
    ids = [token for word in source for token in word] + [EOS]
    inputs = [EOS, *(token for word in target for token in word)]
    path = [len(ids) if k is None else min(k + t, len(ids)) for t in range(len(inputs))]
    backend = translator.backend
    slot = backend.open()
    try:
        backend.read([(slot, ids)])
        return backend.step([Rows(slot, 0, tuple(inputs), tuple(path))])[0]
    finally:
        backend.close(slot)


def auc(higher: Floats, lower: Floats) -> float:
    """The chance that a value of the first kind exceeds one of the second, ties counting half."""
    both = np.concatenate([higher, lower])
    _, index, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[index]
    return float((ranks[: len(higher)].sum() - len(higher) * (len(higher) + 1) / 2) / (len(higher) * len(lower)))


def _tokens(translator: Translator, pair: Aligned) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    return (
        [translator.source.encode(word) for word in pair.source.split()],
        [translator.target.encode(word) for word in pair.target.split()],
    )


def _translations(
    source: Sequence[Sequence[int]], target: Sequence[Sequence[int]], alignment: Iterable[tuple[int, int]]
) -> dict[int, list[int]]:
    """For every aligned source token the positions of the target tokens that translate it."""
    starts = [np.concatenate([[0], np.cumsum([len(word) for word in side])]) for side in (source, target)]
    found: dict[int, list[int]] = {}
    for i, j in alignment:
        for token in range(starts[0][i], starts[0][i + 1]):
            found.setdefault(int(token), []).extend(range(starts[1][j], starts[1][j + 1]))
    return found

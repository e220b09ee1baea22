"""Prepared corpora, memory-mapped, and the updates drawn from them.

An update is a set of sentences and their paths. It depends only on the seed and on its number, so training can resume anywhere.
Splitting an update over processes and parts changes only the order of summation and the random choices of dropout.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bethink.errors import BethinkError, DataError
from bethink.files import read_json
from bethink.text import PAD
from bethink.train.paths import PathConfig, sample
from bethink.train.units import Counter, count_tokens

MANIFEST = "manifest.json"
AGAIN = "remove the folder and make it again with: bethink prepare RECIPE"
Ints = npt.NDArray[np.int64]
ROWS = 16  # GPUs are fastest with a multiple of so many sentences


@dataclass(frozen=True)
class Batch:
    """Sentences padded on the right to the longest of them: source B I, target B T, path B T.

    For word-aligned data also the links of the source tokens, B I: 1 + the position of its target token, 0 for none.
    """

    source: Tensor
    target: Tensor
    path: Tensor
    source_links: Tensor | None = None

    def map(self, change: Callable[[str, Tensor], Tensor]) -> Batch:
        """Apply a function of name and tensor to every tensor."""
        named = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        return Batch(**{name: change(name, tensor) for name, tensor in named if tensor is not None})

    def to(self, device: torch.device) -> Batch:
        if device.type != "cuda":
            return self
        return self.map(lambda _, tensor: tensor.pin_memory().to(device, non_blocking=True))


@dataclass(frozen=True)
class Update:
    """One process's share of an update, and the number of target tokens and sentences of the whole update."""

    number: int
    parts: list[Batch]
    tokens: int
    sentences: int


@dataclass(frozen=True)
class Plan:
    """How the sentences are divided into buckets; every epoch has the same bucket sizes, so updates can be numbered."""

    order: Ints  # sentence numbers, sorted so that similar lengths are together
    edges: Ints  # where each bucket begins in that order, and the end
    same: Ints  # where each run of equal lengths begins in that order, and the end


class Side:
    """One language of a corpus: all token ids in one array, and where each sentence begins in it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.ids = _load(folder / f"{name}.ids.npy")
        self.offsets: Ints = np.array(_load(folder / f"{name}.offsets.npy"), np.int64)
        self.lengths: Ints = np.diff(self.offsets)
        if self.offsets[:1].tolist() != [0] or self.offsets[-1] != len(self.ids) or self.lengths.min(initial=1) < 1:
            raise DataError(f"{folder / name}.offsets.npy does not fit {name}.ids.npy; {AGAIN}")
        links = folder / f"{name}.links.npy"
        self.links = _load(links) if links.exists() else None
        if self.links is not None and len(self.links) != len(self.ids):
            raise DataError(f"{links} does not fit {name}.ids.npy; {AGAIN}")

    def sentence(self, number: int) -> Ints:
        """The token ids of one sentence."""
        return np.asarray(self.ids[self.offsets[number] : self.offsets[number + 1]], np.int64)

    def padded(self, sentences: Ints) -> Tensor:
        """Token ids, padded with PAD."""
        return self._padded(self.ids, sentences)

    def padded_links(self, sentences: Ints) -> Tensor | None:
        """Links, padded with 0, if the corpus is word-aligned."""
        return None if self.links is None else self._padded(self.links, sentences)

    def _padded(self, values: npt.NDArray[Any], sentences: Ints) -> Tensor:
        lengths = self.lengths[sentences]
        columns = np.arange(lengths.max(initial=1))
        real = columns < lengths[:, None]
        places = np.where(real, self.offsets[sentences][:, None] + columns, 0)
        return torch.from_numpy(np.where(real, values[places], PAD).astype(np.int64))


class Corpus:
    """The training or development part of a prepared folder."""

    def __init__(self, folder: Path, part: str) -> None:
        self.source, self.target = Side(folder, f"{part}.source"), Side(folder, f"{part}.target")
        if len(self.source.lengths) != len(self.target.lengths):
            raise DataError(f"{folder} has not as many {part} sentences in its source as in its target; {AGAIN}")

    def __len__(self) -> int:
        return len(self.source.lengths)


def manifest(folder: Path, recipe: str = "RECIPE") -> dict[str, Any]:
    """The manifest that `prepare` wrote into a folder."""
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(
            f"{folder} holds no prepared data ({MANIFEST} is missing); make it with: bethink prepare {recipe}"
        )
    return read_manifest(path, DataError)


def read_manifest(path: Path, error: type[BethinkError]) -> dict[str, Any]:
    """A manifest, or a run's copy of it, checked for everything that training needs."""
    values = read_json(path, error)
    sides = [values.get(side) for side in ("source", "target")]
    expected = {"kind": str, "file": str, "size": int}
    if not isinstance(values.get("fingerprint"), str) or not all(
        isinstance(side, dict) and all(isinstance(side.get(key), kind) for key, kind in expected.items())
        for side in sides
    ):
        raise error(f"{path} is damaged: it does not describe prepared data; {AGAIN}")
    return values


def _load(path: Path) -> npt.NDArray[Any]:
    """A flat array of whole numbers, memory-mapped and never unpickled."""
    try:
        found = np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise DataError(f"cannot read {path}: {(error.strerror or str(error)).lower()}; {AGAIN}") from None
    except (ValueError, OverflowError) as error:
        raise DataError(f"{path} is damaged ({' '.join(str(error).split())}); {AGAIN}") from None
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise DataError(f"{path} is damaged (expected one row of whole numbers); {AGAIN}")
    return found


def plan(corpus: Corpus, tokens: int) -> Plan:
    """Buckets of sentences of similar length, each with at most `tokens` positions on its longer side, padding included.

    Buckets of more than ROWS sentences have a multiple of ROWS.
    """
    source, target = corpus.source.lengths, corpus.target.lengths
    order = np.lexsort((target, source, bands(target, tokens)))
    pairs = np.stack([source[order], target[order]])
    changes = np.flatnonzero((pairs[:, 1:] != pairs[:, :-1]).any(axis=0)) + 1
    longest = pairs.max(axis=0)
    edges = [0]
    while edges[-1] < len(order):
        window = np.maximum.accumulate(longest[edges[-1] : edges[-1] + tokens])
        fits = int(np.searchsorted(window * np.arange(1, len(window) + 1), tokens, side="right"))
        edges.append(edges[-1] + max(fits - fits % ROWS if fits > ROWS else fits, 1))
    return Plan(order, np.array(edges), np.concatenate([[0], changes, [len(order)]]))


def bands(target: Ints, tokens: int) -> Ints:
    """For each sentence its band of target lengths; within a band, sentences are sorted by source length.

    For lengths with many sentences a band is one length. For rare lengths that would put very different source lengths into one bucket,
    so a band covers several target lengths, about as many as the source lengths of a bucket differ by.
    """
    counts = np.bincount(target)
    band = np.zeros(len(counts), np.int64)
    first = 0
    for last in range(len(counts)):
        buckets = counts[first : last + 1].sum() * last / tokens
        band[last] = band[first]
        if buckets >= 1 and last / buckets <= last + 1 - first and last + 1 < len(counts):
            first = last + 1
            band[first] = band[last] + 1
    return band[target]


class Batches:
    """The training updates of a corpus, by number."""

    def __init__(
        self,
        corpus: Corpus,
        paths: PathConfig,
        *,
        tokens: int,
        buckets: int = 1,
        seed: int = 1,
        units: Counter = count_tokens,
    ) -> None:
        if not len(corpus):
            raise DataError(
                "the training corpus is empty; look at the counts in manifest.json to see what the filters dropped"
            )
        self.corpus, self.paths, self.buckets, self.seed, self.units = corpus, paths, buckets, seed, units
        self.plan = plan(corpus, tokens)
        self.per_epoch = math.ceil((len(self.plan.edges) - 1) / buckets)
        self._epoch = lru_cache(maxsize=2)(self._shuffled)

    def sentences(self, number: int) -> list[Ints]:
        """The sentences of an update, bucket by bucket."""
        epoch, index = divmod(number, self.per_epoch)
        order, shuffled = self._epoch(epoch)
        chosen = shuffled[index * self.buckets : (index + 1) * self.buckets]
        edges = self.plan.edges
        return [order[edges[bucket] : edges[bucket + 1]] for bucket in chosen]

    def update(self, number: int, rank: int = 0, ranks: int = 1, split: int = 1) -> Update:
        """The share of process `rank`: buckets are cut so that all processes get as many parts, then into `split` parts each."""
        buckets = self.sentences(number)
        cuts = split * ranks // math.gcd(ranks, len(buckets))
        parts = [
            _cut(batch, np.arange(cut, len(batch.source), cuts))
            for batch in (self._batch(number, place, bucket) for place, bucket in enumerate(buckets))
            for cut in range(cuts)
        ]
        tokens = sum(int(self.corpus.target.lengths[bucket].sum()) for bucket in buckets)
        sentences = sum(map(len, buckets))
        return Update(number, [part for part in parts[rank::ranks] if len(part.source)], tokens, sentences)

    def _batch(self, number: int, place: int, sentences: Ints) -> Batch:
        source, target = (side.padded(sentences) for side in (self.corpus.source, self.corpus.target))
        generator = torch.Generator().manual_seed(mix(self.seed, number, place))
        path = sample(self.paths, self.units(source, target), generator)
        return Batch(source, target, path, self.corpus.source.padded_links(sentences))

    def _shuffled(self, epoch: int) -> tuple[Ints, Ints]:
        """The sentences in the order of the plan, with those of equal lengths shuffled; and the shuffled bucket numbers."""
        rng = np.random.default_rng([self.seed, epoch])
        noise = rng.random(len(self.plan.order))
        runs = np.repeat(np.arange(len(self.plan.same) - 1), np.diff(self.plan.same))
        return self.plan.order[np.lexsort((noise, runs))], rng.permutation(len(self.plan.edges) - 1)


def in_order(corpus: Corpus, tokens: int) -> list[Ints]:
    """Buckets of a corpus in a fixed order, for validation."""
    made = plan(corpus, tokens)
    return [made.order[start:end] for start, end in zip(made.edges[:-1], made.edges[1:], strict=True)]


def mix(*numbers: int) -> int:
    """One seed from several numbers; neighbouring numbers give independent seeds."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _cut(batch: Batch, rows: Ints) -> Batch:
    """Some rows of a batch, without padding that only the other rows need."""
    if len(rows) == len(batch.source):
        return batch
    index = torch.from_numpy(rows)
    kept = batch.map(lambda _, tensor: tensor[index])
    wide, long = (int((side != PAD).sum(dim=1).max()) if len(index) else 0 for side in (kept.source, kept.target))
    return kept.map(lambda name, tensor: tensor[:, : wide if name.startswith("source") else long])

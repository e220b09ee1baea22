"""Word alignments of a prepared corpus: by which target token each source token is translated.

A statistical aligner runs in both directions over the tokens that the model sees. Only links that both directions agree on are kept:
a wrong link would teach the model to wait for no reason, a missing one does no harm.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bethink.evaluate.links import aligned
from bethink.train.data import Corpus, Side

Numbers = npt.NDArray[Any]
Links = npt.NDArray[np.int64]  # per token, all sentences in a row: 1 + the position of its partner, 0 for none
NEAR = 1  # both directions agree if they are at most so many tokens apart, because a word may have several tokens
LINES = 50_000  # read at a time


def align(corpus: Corpus, most: int = 0, seed: int = 1) -> Links:
    """The links of the source tokens; with `most`, only of so many sentences, drawn at random, and 0 for all others."""
    count = len(corpus)
    if not most or most >= count:
        return _align(corpus.source, corpus.target)
    chosen = np.sort(np.random.default_rng(seed).choice(count, most, replace=False))
    links = np.zeros(len(corpus.source.ids), np.int64)
    source = _Part(corpus.source, chosen)
    links[source.places] = _align(source, _Part(corpus.target, chosen))
    return links


class _Part:
    """Some sentences of a side."""

    def __init__(self, side: Side, sentences: Links) -> None:
        lengths = side.lengths[sentences]
        self.offsets: Links = np.concatenate([[0], lengths.cumsum()])
        self.places: Links = np.arange(self.offsets[-1]) + np.repeat(
            side.offsets[sentences] - self.offsets[:-1], lengths
        )
        self.ids = side.ids[self.places]


def _align(source: Side | _Part, target: Side | _Part) -> Links:
    with aligned(_lines(source), _lines(target)) as (forward, backward):
        to_source = read_links(forward, target.offsets, column=1)
        to_target = read_links(backward, source.offsets, column=0)
    return agreed(to_target, to_source, source.offsets, target.offsets)


def _lines(side: Side | _Part) -> Iterator[str]:
    """Each sentence as its token numbers, without end-of-sentence."""
    for start, end in itertools.pairwise(side.offsets.tolist()):
        yield " ".join(map(str, side.ids[start : end - 1].tolist())) + "\n"


def read_links(path: Path, offsets: Links, column: int) -> Links:
    """The links of one side, from lines of `source-target` pairs, counted from 0; `column` is 0 for the source."""
    links = np.zeros(offsets[-1], np.int64)
    with path.open("rb") as lines:
        for first in range(0, len(offsets) - 1, LINES):
            chunk = list(itertools.islice(lines, LINES))
            counts = [line.count(b"-") for line in chunk]
            numbers = np.array(b" ".join(chunk).replace(b"-", b" ").split(), np.int64).reshape(-1, 2)
            starts = np.repeat(offsets[first : first + len(chunk)], counts)
            links[starts + numbers[:, column]] = numbers[:, 1 - column] + 1
    return links


def agreed(mine: Numbers, theirs: Numbers, offsets: Links, other: Links) -> Links:
    """The links of one side that the other side confirms; end-of-sentence, the last token, is linked to end-of-sentence."""
    lengths = np.diff(offsets)
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(mine)) - offsets[sentence]
    partner = np.minimum(other[sentence] + np.maximum(mine.astype(np.int64), 1) - 1, other[sentence + 1] - 1)
    back = theirs[partner].astype(np.int64)
    links = np.where((mine > 0) & (back > 0) & (np.abs(back - 1 - place) <= NEAR), mine, 0).astype(np.int64)
    links[offsets[1:] - 1] = np.diff(other)
    return links

"""Haste: how often a word was shown before the source words that it translates had been read.

Measured from logs and word alignments A, whose links (i, j) say that target word j translates source word i, both counted from 1.
d_j source words had been read when target word j was shown. In percent of the words shown:

- `hallucination`: words with no link to a source word that had been read (no (i, j) in A with i ≤ d_j). It includes
- `unaligned`: words with no link at all, which a translation of the whole sentence has, too.
- `anticipated`: words with a link to a source word that had not been read (some (i, j) in A with i > d_j).

`anticipation` is how far ahead they were: the mean of max(0, s_j − d_j) over all words, s_j the last source word linked to word j.
`reference, k=3` is the k-anticipation rate of the reference, whatever the policy: words with a link to source word i ≥ j + k.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bethink.errors import DataError
from bethink.evaluate.instances import Instance, read_log
from bethink.evaluate.links import Links, align, parse_links, words
from bethink.evaluate.run import Result
from bethink.files import read_lines

KS = (1, 3, 5, 7, 9)  # of the reference's k-anticipation


def with_haste(
    results: Sequence[Result],
    logs: Sequence[str | os.PathLike[str]],
    *,
    text: Sequence[tuple[str, str]] = (),
    alignments: str | os.PathLike[str] | None = None,
) -> list[Result]:
    """The results with measures of haste, each from its log.

    The aligner learns from the source with the references and all translations, and from `text`, further pairs of sentences.
    `alignments` is a file with the links of the references, if people have made them.
    """
    read = [read_log(log) for log in logs]
    known = align([*(pair for log in read for one in log for pair in _pairs(one)), *text])
    made = [
        measure(log, [known.get(_pairs(one)[0], ()) for one in log])
        | reference_anticipation(
            log, _gold(log, Path(alignments)) if alignments else [known.get(_pairs(one)[1], ()) for one in log]
        )
        for log in read
    ]
    return [
        replace(result, scores=replace(result.scores, haste=haste)) for result, haste in zip(results, made, strict=True)
    ]


def measure(log: Sequence[Instance], links: Sequence[Links]) -> dict[str, float]:
    """The haste of a log, with the links of its predictions; empty if nothing was shown."""
    found: list[tuple[bool, bool, bool, float]] = []
    for one, pairs in zip(log, links, strict=True):
        partners: list[list[int]] = [[] for _ in one.delays]
        for i, j in pairs:
            if j >= len(partners):
                raise DataError(
                    f"sentence {one.index} has {len(partners)} delays for more words; expected one for each word"
                )
            partners[j].append(i + 1)
        for read, own in zip(one.delays, partners, strict=True):
            ahead = max(0.0, max(own, default=0) - read)
            found.append((not any(i <= read for i in own), not own, ahead > 0, ahead))
    if not found:
        return {}
    names, means = ("hallucination", "unaligned", "anticipated"), np.mean(np.array(found, dtype=np.float64), axis=0)
    return {name: float(100 * mean) for name, mean in zip(names, means, strict=False)} | {
        "anticipation": float(means[3])
    }


def reference_anticipation(log: Sequence[Instance], links: Sequence[Links]) -> dict[str, float]:
    """The k-anticipation rates of the references (Chen et al. 2021), with their links."""
    lengths = [len(words(one.reference)) for one in log]
    ahead = [
        max((i - j for i, j in pairs if j == place), default=0)
        for n, pairs in enumerate(links)
        for place in range(lengths[n])
    ]
    return {f"reference, k={k}": float(100 * np.mean(np.array(ahead) >= k)) for k in KS} if ahead else {}


def _pairs(one: Instance) -> tuple[tuple[str, str], tuple[str, str]]:
    """The source with the translation, and with the reference."""
    return (one.source, one.prediction), (one.source, one.reference)


def _gold(log: Sequence[Instance], path: Path) -> list[Links]:
    lines = read_lines(path)
    if len(lines) != len(log):
        raise DataError(
            f"{path} has {len(lines)} lines but the log has {len(log)} sentences; expected one line for each"
        )
    return [
        parse_links(line, len(words(one.source)), len(words(one.reference)), f"{path}, line {number}")
        for number, (line, one) in enumerate(zip(lines, log, strict=True), start=1)
    ]

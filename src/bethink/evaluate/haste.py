"""Haste: how often a word was shown before the source words that it translates had been read.

Measured from logs and word alignments A, whose links (i, j) say that target word j translates source word i, both counted from 1.
d_j source words had been read when target word j was shown. In percent of the words shown:

- `hallucination`: words with no link to a source word that had been read (no (i, j) in A with i ≤ d_j). It includes
- `unaligned`: words with no link at all, which a translation of the whole sentence has, too.
- `anticipated`: words with a link to a source word that had not been read (some (i, j) in A with i > d_j).

In percent of the content words, which are the words that are not among the 100 most frequent of their side of the text:

- `invented`: words shown with no link to a source word that had been read. An aligner links some words to nothing, so it counts in
  a translation of the whole sentence, too.
- `content_lost`: of the source words that are linked in the reference and in the same model's whole-sentence translation, those
  that have no link in this translation. It is measured where a log of the policy offline is among the logs.

`anticipation` is how far ahead they were: the mean of max(0, s_j − d_j) over all words, s_j the last source word linked to word j.
`reference, k=3` is the k-anticipation rate of the reference, whatever the policy: words with a link to source word i ≥ j + k.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from bethink.errors import DataError
from bethink.evaluate.instances import Instance, read_log
from bethink.evaluate.links import Links, align, folded, parse_links, words
from bethink.evaluate.run import Result
from bethink.files import read_lines

KS = (1, 3, 5, 7, 9)  # of the reference's k-anticipation
FREQUENT = 100  # words of each language that are no content words
WHOLE = "offline"  # the policy of whole-sentence translations


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
    pairs = [*(pair for log in read for one in log for pair in _pairs(one)), *text]
    known = align(pairs)
    frequent = [most_frequent(side) for side in zip(*dict.fromkeys(pairs), strict=True)] or [frozenset()] * 2
    people = read_lines(alignments) if alignments else []
    made = []
    whole = next((log for result, log in zip(results, read, strict=True) if result.policy == WHOLE), None)
    for log in read:
        said = [known.get(_pairs(one)[0], ()) for one in log]
        asked = _gold(log, people, str(alignments)) if alignments else [known.get(_pairs(one)[1], ()) for one in log]
        haste = measure(log, said, frequent[1]) | reference_anticipation(log, asked)
        if whole and [one.source for one in whole] == [one.source for one in log]:
            haste |= lost(log, said, asked, [known.get(_pairs(one)[0], ()) for one in whole], frequent[0])
        made.append(haste)
    return [
        replace(result, scores=replace(result.scores, haste=haste)) for result, haste in zip(results, made, strict=True)
    ]


def most_frequent(lines: Iterable[str]) -> AbstractSet[str]:
    """The words of a text that say little by themselves: its most frequent ones."""
    counts = Counter(word for line in lines for word in folded(line))
    return frozenset(word for word, _ in counts.most_common(FREQUENT))


def lost(
    log: Sequence[Instance],
    said: Sequence[Links],
    asked: Sequence[Links],
    whole: Sequence[Links],
    frequent: AbstractSet[str],
) -> dict[str, float]:
    """The content words that a policy drops: links of its translations, of the references and of whole-sentence translations."""
    cases = [
        i not in {source for source, _ in said[n]}
        for n, one in enumerate(log)
        for i, word in enumerate(folded(one.source))
        if _has_content(word, frequent) and all(i in {source for source, _ in links[n]} for links in (asked, whole))
    ]
    return {"content_lost": float(100 * np.mean(cases)), "of_content_lost": float(len(cases))} if cases else {}


def measure(
    log: Sequence[Instance], links: Sequence[Links], frequent: AbstractSet[str] = frozenset()
) -> dict[str, float]:
    """The haste of a log, with the links of its predictions; empty if nothing was shown."""
    found: list[tuple[bool, bool, bool, float]] = []
    content: list[bool] = []
    for one, pairs in zip(log, links, strict=True):
        partners: list[list[int]] = [[] for _ in one.delays]
        for i, j in pairs:
            if j >= len(partners):
                raise DataError(
                    f"sentence {one.index} has {len(partners)} delays for more words; expected one for each word"
                )
            partners[j].append(i + 1)
        shown = folded(one.prediction)
        for read, own, word in zip(one.delays, partners, shown, strict=False):
            ahead = max(0.0, max(own, default=0) - read)
            unfounded = not any(i <= read for i in own)
            found.append((unfounded, not own, ahead > 0, ahead))
            if _has_content(word, frequent):
                content.append(unfounded)
    if not found:
        return {}
    names, means = ("hallucination", "unaligned", "anticipated"), np.mean(np.array(found, dtype=np.float64), axis=0)
    made = {name: float(100 * mean) for name, mean in zip(names, means, strict=False)}
    invented = {"invented": float(100 * np.mean(content))} if content else {}
    return made | {"anticipation": float(means[3])} | invented


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


def _has_content(word: str, frequent: AbstractSet[str]) -> bool:
    return word not in frequent and any(map(str.isalnum, word))


def _gold(log: Sequence[Instance], lines: Sequence[str], path: str) -> list[Links]:
    if len(lines) != len(log):
        raise DataError(
            f"{path} has {len(lines)} lines but the log has {len(log)} sentences; expected one line for each"
        )
    return [
        parse_links(line, len(words(one.source)), len(words(one.reference)), f"{path}, line {number}")
        for number, (line, one) in enumerate(zip(lines, log, strict=True), start=1)
    ]

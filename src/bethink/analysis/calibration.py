"""Does the judge's stability mean what it says: of the words written at 80 %, do eight of ten survive?

Only words written before the source was complete are looked at; the stability of a word is that of its least stable token. A word
survives in two senses. `kept`: with the whole source and the same words before it, the model would write it again; that is what the
judge was taught. `found`: the word also stands in the translation of the whole sentence, at its place among the other words.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bethink.analysis.sheet import Sheet, number, percent
from bethink.analysis.statistics import separation
from bethink.backend import Backend, Rows
from bethink.errors import DataError, ModelError
from bethink.policy import Action, Policy, parse
from bethink.text import EOS, Vocabulary, starts_word
from bethink.trace import Step, Translation

if TYPE_CHECKING:
    from bethink.translator import Translator

EDGES = (0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0)  # most words are written at a high stability
BATCH = 64  # sentences in flight


@dataclass(frozen=True)
class Bin:
    """Words of similar stability."""

    low: float
    high: float
    words: int
    stability: float  # mean
    kept: float  # share
    found: float  # share


@dataclass(frozen=True)
class Reliability:
    """One policy on one text."""

    text: str
    sentences: int
    policy: str
    words: int  # written
    early: int  # of these, before the source was complete
    bins: tuple[Bin, ...]
    error: float  # mean distance between stability and the share kept, weighted by words (expected calibration error)
    auc: float | None  # how well stability separates the words kept from the others
    confidence_auc: float | None  # the same of the model's confidence


@dataclass(frozen=True)
class Calibration:
    model: str
    found: tuple[Reliability, ...]


@dataclass(frozen=True)
class EarlyWord:
    stability: float
    confidence: float
    kept: bool
    found: bool


def calibration(translator: Translator, texts: Mapping[str, Sequence[str]], policies: Sequence[Policy]) -> Calibration:
    """`texts` are sentences by the name of their text."""
    found = []
    for name, lines in texts.items():
        whole = list(translator.translate_many(lines, parse("offline")))
        found += [_reliability(translator, name, lines, whole, policy) for policy in policies]
    return Calibration(translator.name, tuple(found))


def _reliability(
    translator: Translator, name: str, lines: Sequence[str], whole: Sequence[Translation], policy: Policy
) -> Reliability:
    live = list(translator.translate_many(lines, policy))
    batches = (live[n : n + BATCH] for n in range(0, len(live), BATCH))
    again = itertools.chain.from_iterable(propose_again(translator.backend, batch) for batch in batches)
    written = 0
    early: list[EarlyWord] = []
    for one, other, candidates in zip(live, whole, again, strict=True):
        words = list(words_of(translator.target, one.writes))
        written += len(words)
        early += early_words(translator.target, words, other, candidates)
    if not early:
        raise DataError(f"policy {policy} wrote no word before the source was complete; there is nothing to judge")
    stability, confidence, kept, found = (
        np.array([getattr(word, name) for word in early]) for name in ("stability", "confidence", "kept", "found")
    )
    bins = tuple(_bins(stability, kept, found))
    error = sum(each.words * abs(each.stability - each.kept) for each in bins) / len(early)
    aucs = [separation(values, kept) if 0 < kept.sum() < len(kept) else None for values in (stability, confidence)]
    return Reliability(name, len(lines), str(policy), written, len(early), bins, error, *aucs)


def propose_again(backend: Backend, translations: Sequence[Translation]) -> list[list[int]]:
    """What the model would write at each place, with the whole source and the words that were written before it."""
    slots = [backend.open() for _ in translations]
    inputs = [(EOS, *(step.token for step in one.writes[:-1])) for one in translations]
    found: list[list[int]] = [[] for _ in translations]
    try:
        reads = [[step.token for step in one.steps if step.action is Action.READ] for one in translations]
        backend.read([(slot, ids) for slot, ids in zip(slots, reads, strict=True) if ids])
        while open_ := [n for n, tokens in enumerate(inputs) if reads[n] and len(found[n]) < len(tokens)]:
            rests = {n: inputs[n][len(found[n]) :] for n in open_}
            asked = [Rows(slots[n], len(found[n]), rest, (len(reads[n]),) * len(rest)) for n, rest in rests.items()]
            for n, rows in zip(open_, backend.step(asked), strict=True):
                found[n] += [row.candidate for row in rows]
    finally:
        for slot in slots:
            backend.close(slot)
    return found


def words_of(target: Vocabulary, writes: Iterable[Step]) -> Iterator[list[Step]]:
    """The WRITEs of each word."""
    word: list[Step] = []
    for step in writes:
        if word and (step.token == EOS or starts_word(target, step.token, word[-1].token)):
            yield word
            word = []
        if step.token != EOS:
            word.append(step)
    if word:
        yield word


def early_words(
    target: Vocabulary, words: Sequence[Sequence[Step]], whole: Translation, candidates: Sequence[int]
) -> Iterator[EarlyWord]:
    texts = [target.decode([step.token for step in word]) for word in words]
    blocks = difflib.SequenceMatcher(None, texts, whole.text.split(), autojunk=False).get_matching_blocks()
    found = {place for block in blocks for place in range(block.a, block.a + block.size)}
    for place, word in enumerate(words):
        judged = [step.stability for step in word if step.stability is not None]
        if len(judged) < len(word):
            raise ModelError("this model has no judge, so its words have no stability; add one with: bethink judge")
        if any(step.reason.code != "source_complete" for step in word):
            kept = all(candidates[step.written - 1] == step.token for step in word)
            confidence = min(step.confidence or 0.0 for step in word)
            yield EarlyWord(min(judged), confidence, kept, place in found)


def _bins(stability: np.ndarray, kept: np.ndarray, found: np.ndarray) -> Iterator[Bin]:
    for low, high in itertools.pairwise(EDGES):
        inside = (stability >= low) & ((stability < high) | (high == EDGES[-1]))
        if count := int(inside.sum()):
            means = (float(values[inside].mean()) for values in (stability, kept, found))
            yield Bin(low, high, count, *means)


def sheets(record: Calibration) -> list[Sheet]:
    made = []
    for one in record.found:
        rows = [
            (f"{each.low:g} – {each.high:g}", f"{each.words:,}", *map(percent, (each.stability, each.kept, each.found)))
            for each in one.bins
        ]
        auc = f"AUC {number(one.auc, 3)}, of the model's confidence {number(one.confidence_auc, 3)}"
        note = (
            f"{record.model}, {one.sentences:,} sentences of {one.text}: {one.words:,} words, of which {one.early:,} were written "
            f"before the source was complete. Expected calibration error {number(one.error, 3)}; {auc}. Kept: with the whole source "
            "and the same words before it the model writes the word again. Found: it stands in the translation of the whole sentence."
        )
        columns = ("stability", "words", "mean stability", "kept", "found")
        made.append(Sheet(f"What stability means: {one.text}, {one.policy}", columns, rows, note))
    return made

"""Does the judge's stability mean what it says: of the words written at 80 %, are eight of ten right?

Only words written before the source was complete are looked at; the stability of a word is that of its least stable token. Each is
weighed again by a model that knows the whole source and the same words before it. `right`: no token of it is much less likely than
the likeliest one; that is what the judge is taught. `kept`: each token is the likeliest one, so the word is the same to the letter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bethink.analysis.sheet import Sheet, number, percent
from bethink.analysis.statistics import separation
from bethink.errors import DataError, ModelError
from bethink.policy import Policy
from bethink.text import EOS, Vocabulary, starts_word
from bethink.trace import Step, Translation

if TYPE_CHECKING:
    from bethink.translator import Translator

EDGES = (0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0)  # most words are written at a high stability


@dataclass(frozen=True)
class Hindsight:
    """What the model thinks of a written token once it knows the whole source."""

    right: bool  # nearly as likely as the likeliest token
    kept: bool  # the likeliest token


LookBack = Callable[[Sequence[Translation]], list[list[Hindsight]]]  # one for every WRITE


@dataclass(frozen=True)
class Bin:
    """Words of similar stability."""

    low: float
    high: float
    words: int
    stability: float  # mean
    right: float  # share
    kept: float  # share


@dataclass(frozen=True)
class Reliability:
    """One policy on one text."""

    text: str
    sentences: int
    policy: str
    words: int  # written
    early: int  # of these, before the source was complete
    bins: tuple[Bin, ...]
    error: float  # mean distance between stability and the share that is right, weighted by words (expected calibration error)
    auc: float | None  # how well stability separates the words that are right from the others
    confidence_auc: float | None  # the same of the model's confidence


@dataclass(frozen=True)
class Calibration:
    model: str
    found: tuple[Reliability, ...]


@dataclass(frozen=True)
class EarlyWord:
    stability: float
    confidence: float
    right: bool
    kept: bool


def calibration(
    translator: Translator, texts: Mapping[str, Sequence[str]], policies: Sequence[Policy], look_back: LookBack
) -> Calibration:
    """`texts` are sentences by the name of their text."""
    found = [
        _reliability(translator, name, lines, policy, look_back) for name, lines in texts.items() for policy in policies
    ]
    return Calibration(translator.name, tuple(found))


def _reliability(
    translator: Translator, name: str, lines: Sequence[str], policy: Policy, look_back: LookBack
) -> Reliability:
    live = list(translator.translate_many(lines, policy))
    written = 0
    early: list[EarlyWord] = []
    for one, hindsight in zip(live, look_back(live), strict=True):
        words = list(words_of(translator.target, one.writes))
        written += len(words)
        early += early_words(words, hindsight)
    if not early:
        raise DataError(f"policy {policy} wrote no word before the source was complete; there is nothing to judge")
    stability, confidence, right, kept = (
        np.array([getattr(word, name) for word in early]) for name in ("stability", "confidence", "right", "kept")
    )
    bins = tuple(_bins(stability, right, kept))
    error = sum(each.words * abs(each.stability - each.right) for each in bins) / len(early)
    aucs = [separation(values, right) for values in (stability, confidence)]
    return Reliability(name, len(lines), str(policy), written, len(early), bins, error, *aucs)


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


def early_words(words: Iterable[Sequence[Step]], hindsight: Sequence[Hindsight]) -> Iterator[EarlyWord]:
    for word in words:
        if word[0].reason.code == "copied":  # without the model
            continue
        judged = [step.stability for step in word if step.stability is not None]
        if len(judged) < len(word):
            raise ModelError("this model has no judge, so its words have no stability; add one with: bethink judge")
        if any(step.reason.code != "source_complete" for step in word):
            later = [hindsight[step.written - 1] for step in word]
            confidence = min(step.confidence or 0.0 for step in word)
            yield EarlyWord(min(judged), confidence, all(one.right for one in later), all(one.kept for one in later))


def _bins(stability: np.ndarray, right: np.ndarray, kept: np.ndarray) -> Iterator[Bin]:
    for low, high in itertools.pairwise(EDGES):
        inside = (stability >= low) & ((stability < high) | (high == EDGES[-1]))
        if count := int(inside.sum()):
            means = (float(values[inside].mean()) for values in (stability, right, kept))
            yield Bin(low, high, count, *means)


def sheets(record: Calibration) -> list[Sheet]:
    made = []
    for one in record.found:
        rows = [
            (f"{each.low:g} – {each.high:g}", f"{each.words:,}", *map(percent, (each.stability, each.right, each.kept)))
            for each in one.bins
        ]
        auc = f"AUC {number(one.auc, 3)}, of the model's confidence {number(one.confidence_auc, 3)}"
        note = (
            f"{record.model}, {one.sentences:,} sentences of {one.text}: {one.words:,} words, of which {one.early:,} were written "
            f"before the source was complete. Expected calibration error {number(one.error, 3)}; {auc}. Right: with the whole source "
            "and the same words before it, each token of the word is at least 0.3 times as likely as the likeliest token. Kept: each is "
            "the likeliest, so the word is the same to the letter."
        )
        columns = ("stability", "words", "mean stability", "right", "kept")
        made.append(Sheet(f"What stability means: {one.text}, {one.policy}", columns, rows, note))
    return made

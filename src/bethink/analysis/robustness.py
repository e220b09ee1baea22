"""BLEU and LAAL when the source is noisy, and how many translations are empty or do not end.

Noise of live sources: the same sentences without punctuation, without capitals, in capitals alone, with typos, with repeated words,
with hesitations, several in one, or with words of the other language. The noise has a fixed seed, so the same sentences always
become the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from bethink.analysis.sheet import Sheet, number
from bethink.errors import DataError
from bethink.evaluate.instances import Instance, instance, score
from bethink.policy import Policy
from bethink.text import without_punctuation
from bethink.text.languages import halting, load

if TYPE_CHECKING:
    from bethink.translator import Translator

Texts: TypeAlias = tuple[str, str]  # source and reference
Noise: TypeAlias = Callable[
    [Sequence[Texts], random.Random, Sequence[str]], list[Texts]
]  # with the language's hesitations

SEED = 2022
RATE = 0.1  # of the words that typos, stuttering and code-switching touch
JOINED = 5  # sentences in a very long one
TIMES, UNIT = 5, 4  # at most UNIT words, repeated TIMES times in a row, are a loop


@dataclass(frozen=True)
class Outcome:
    """One policy on one kind of source."""

    policy: str
    noise: str  # "clean" for the test set itself
    sentences: int
    BLEU: float
    LAAL: float  # in words
    empty: int  # translations without a word
    loops: int  # translations that repeat themselves, or were cut because they did not end


@dataclass(frozen=True)
class Robustness:
    model: str
    signature: str
    outcomes: tuple[Outcome, ...]


def robustness(translator: Translator, texts: Sequence[Texts], policies: Sequence[Policy]) -> Robustness:
    clean = [pair for pair in texts if pair[0].split()]
    if not clean:
        raise DataError("there are no sentences to disturb; give a source file with at least one")
    known = load(translator.languages[0])
    said = known.hesitations if known else ()
    kinds = {"clean": clean} | {name: noise(clean, random.Random(SEED), said) for name, noise in NOISES.items()}
    outcomes, signature = [], ""
    for policy in policies:
        for name, pairs in kinds.items():
            outcome, signature = _outcome(translator, [pair for pair in pairs if pair[0].split()], policy, name)
            outcomes.append(outcome)
    return Robustness(translator.name, signature, tuple(outcomes))


def _outcome(translator: Translator, pairs: Sequence[Texts], policy: Policy, noise: str) -> tuple[Outcome, str]:
    done = translator.translate_many([source for source, _ in pairs], policy)
    found = [instance(n, *pair, one) for n, (pair, one) in enumerate(zip(pairs, done, strict=True))]
    scores = score(found)
    bleu = scores.quality["standard"]["BLEU"]
    lag = scores.latency["simuleval"]["LAAL"] if "simuleval" in scores.latency else float("nan")
    empty, loops = sum(not one.delays for one in found), sum(map(is_endless, found))
    return Outcome(str(policy), noise, len(pairs), bleu.score, lag, empty, loops), bleu.signature


def is_endless(one: Instance) -> bool:
    """Whether a translation repeats itself although the reference does not, or was cut at the length limit."""
    cut = len(one.path) > 2 * one.source_tokens + 50
    return cut or (repeats(one.prediction.split()) and not repeats(one.reference.split()))


def repeats(words: Sequence[str]) -> bool:
    for size in range(1, UNIT + 1):
        for start in range(len(words) - size * TIMES + 1):
            unit = words[start : start + size]
            if all(words[start + n * size : start + (n + 1) * size] == unit for n in range(1, TIMES)):
                return True
    return False


def sheets(found: Robustness) -> list[Sheet]:
    clean = {one.policy: one for one in found.outcomes if one.noise == "clean"}
    rows = [
        (
            one.policy,
            one.noise,
            number(one.BLEU),
            number(one.BLEU - clean[one.policy].BLEU, sign=True) if one.noise != "clean" else "",
            number(one.LAAL),
            number(one.LAAL - clean[one.policy].LAAL, sign=True) if one.noise != "clean" else "",
            str(one.empty),
            str(one.loops),
        )
        for one in found.outcomes
    ]
    columns = ("policy", "source", "BLEU", "Δ BLEU", "LAAL (words)", "Δ LAAL", "empty", "endless")
    sizes = max(one.sentences for one in found.outcomes)
    return [
        Sheet("When the source is not clean", columns, rows, f"{found.model}: {sizes} sentences; {found.signature}")
    ]


def bare(line: str) -> str:
    """A line as many speech recognisers write it: in lower case, without punctuation."""
    return without_punctuation(line).lower()


def joined(pairs: Sequence[Texts]) -> list[Texts]:
    """Five sentences in one, without an end between them."""
    groups = [pairs[n : n + JOINED] for n in range(0, len(pairs), JOINED)]
    return [
        (" ".join(source for source, _ in group), " ".join(reference for _, reference in group)) for group in groups
    ]


def switched(pairs: Sequence[Texts], draw: random.Random) -> list[Texts]:
    """One word in ten is in the other language: the reference word at the same relative position."""
    found = []
    for source, reference in pairs:
        words, others = source.split(), reference.split()
        for n in range(len(words)):
            if others and draw.random() < RATE:
                words[n] = others[n * len(others) // len(words)]
        found.append((" ".join(words), reference))
    return found


def each_line(change: Callable[[str], str]) -> Noise:
    return lambda pairs, _draw, _said: [(change(source), reference) for source, reference in pairs]


def each_word(change: Callable[[str, random.Random], list[str]]) -> Noise:
    """One word in ten is changed."""

    def changed(line: str, draw: random.Random) -> str:
        return " ".join(
            part for word in line.split() for part in (change(word, draw) if draw.random() < RATE else [word])
        )

    return lambda pairs, draw, _said: [(changed(source, draw), reference) for source, reference in pairs]


NOISES: dict[str, Noise] = {
    "no punctuation": each_line(without_punctuation),
    "lower case": each_line(str.lower),
    "lower case, no punctuation": each_line(bare),
    "capitals": each_line(str.upper),
    "typos": each_word(lambda word, draw: [_mistyped(word, draw)]),  # two letters swapped, one lost, or one doubled
    "repeated words": each_word(lambda word, _: [word, word]),
    "hesitations": lambda pairs, draw, said: [(halting(line, said, draw, RATE), other) for line, other in pairs],
    "five sentences in one": lambda pairs, _draw, _said: joined(pairs),
    "five sentences in one, lower case, no punctuation": lambda pairs, _draw, _said: [
        (bare(source), reference) for source, reference in joined(pairs)
    ],
    "code-switching": lambda pairs, draw, _said: switched(pairs, draw),
}


def _mistyped(word: str, draw: random.Random) -> str:
    if len(word) < 3:
        return word
    place = draw.randrange(len(word) - 1)
    kind = draw.randrange(3)
    if kind == 0:
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    return word[:place] + word[place + 1 :] if kind == 1 else word[:place] + word[place] + word[place:]

"""What a live source brings: the same sentences without punctuation or capitals, mistyped, stuttered, endless, or half translated.

Every kind is drawn from a seed, so that the same sentences always come out the same.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

Pairs: TypeAlias = "list[tuple[str, str]]"  # source and reference
Noise: TypeAlias = Callable[[Sequence[tuple[str, str]], random.Random], Pairs]

RATE = 0.1  # of the words that typos, stuttering and code-switching touch
JOINED = 5  # sentences in a very long one
_PUNCTUATION = re.compile(r"[^\w\s'’-]+|(?<!\w)[-'’]+|[-'’]+(?!\w)")


def unpunctuated(pairs: Sequence[tuple[str, str]], _draw: random.Random) -> Pairs:
    return [(without_punctuation(source), reference) for source, reference in pairs]


def without_punctuation(line: str) -> str:
    return " ".join(_PUNCTUATION.sub(" ", line).split())


def lower(pairs: Sequence[tuple[str, str]], _draw: random.Random) -> Pairs:
    return [(source.lower(), reference) for source, reference in pairs]


def typos(pairs: Sequence[tuple[str, str]], draw: random.Random) -> Pairs:
    """One word in ten has two letters swapped, one lost, or one doubled."""
    return [(_each(source, draw, lambda word: [_mistyped(word, draw)]), reference) for source, reference in pairs]


def repeated(pairs: Sequence[tuple[str, str]], draw: random.Random) -> Pairs:
    """One word in ten is said twice."""
    return [(_each(source, draw, lambda word: [word, word]), reference) for source, reference in pairs]


def long(pairs: Sequence[tuple[str, str]], _draw: random.Random) -> Pairs:
    """Five sentences in one, without an end between them."""
    groups = [pairs[n : n + JOINED] for n in range(0, len(pairs), JOINED)]
    return [
        (" ".join(source for source, _ in group), " ".join(reference for _, reference in group)) for group in groups
    ]


def switched(pairs: Sequence[tuple[str, str]], draw: random.Random) -> Pairs:
    """One word in ten is already in the other language: the word at its place of the reference."""
    return [(_switch(source, reference, draw), reference) for source, reference in pairs]


NOISES: dict[str, Noise] = {
    "no punctuation": unpunctuated,
    "lower case": lower,
    "typos": typos,
    "repeated words": repeated,
    "five sentences in one": long,
    "code-switching": switched,
}


def _each(line: str, draw: random.Random, change: Callable[[str], list[str]]) -> str:
    return " ".join(part for word in line.split() for part in (change(word) if draw.random() < RATE else [word]))


def _mistyped(word: str, draw: random.Random) -> str:
    if len(word) < 3:
        return word
    place = draw.randrange(len(word) - 1)
    kind = draw.randrange(3)
    if kind == 0:
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    return word[:place] + word[place + 1 :] if kind == 1 else word[:place] + word[place] + word[place:]


def _switch(source: str, reference: str, draw: random.Random) -> str:
    words, others = source.split(), reference.split()
    for n in range(len(words)):
        if others and draw.random() < RATE:
            words[n] = others[n * len(others) // len(words)]
    return " ".join(words)

"""An invented language pair: verbs end the source clause but come early in the target, so a translator has to wait.

    sentence  = clause (joint clause){0,2} "."
    clause    = subject  companion{0,4} verb    →  subject  verb  companion{0,4}    the verb has to be waited for
              | subject  verb  companion{0,2}   →  the same order                   nothing to wait for
    subject   = phrase [particle]               →  phrase                           the particle has no translation
    companion = phrase | adverb                 →  some adverbs become two words
    phrase    = determiner [adjective] noun     →  number: on the determiner in the source,
                                                   on adjective, noun and verb in the target

The target is determined by the whole source. Verbs are drawn independently, so nothing before a verb predicts it. A fixed lag is
too short for some clauses and too long for others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

SHORTEST, LONGEST = 6, 20  # source words per sentence


@dataclass(frozen=True, slots=True)
class AlignedPair:
    """Two sentences and which of their words translate each other: (source, target), counted from 0."""

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One source word and the target words it becomes: none, one or two."""

    source: str
    target: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lexicon:
    nouns: dict[str, str]
    adjectives: dict[str, str]
    verbs: dict[str, str]
    adverbs: dict[str, tuple[str, ...]]


def _words(count: int, syllables: int, ending: str, onsets: str, vowels: str, rng: random.Random) -> list[str]:
    """Distinct invented words that can be pronounced."""
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(rng.choice(onsets) + rng.choice(vowels) for _ in range(syllables)) + ending] = None
    return list(words)


def _lexicon() -> Lexicon:
    """Always the same words: a seed changes the sentences, not the language. Endings keep word classes apart."""
    rng = random.Random("bethink")

    def pairs(count: int, syllables: int, source_ending: str, target_ending: str) -> dict[str, str]:
        left = _words(count, syllables, source_ending, "kptsnmrh", "aiuo", rng)
        return dict(zip(left, _words(count, 2, target_ending, "bdglvfzw", "aeio", rng), strict=True))

    adverbs = pairs(30, 3, "n", "ly")
    return Lexicon(
        nouns=pairs(90, 2, "", "r"),
        adjectives=pairs(40, 2, "ki", "l"),
        verbs=pairs(60, 2, "ru", "m"),
        adverbs={word: ("so", is_) if n % 5 == 0 else (is_,) for n, (word, is_) in enumerate(adverbs.items())},
    )


LEXICON = _lexicon()
DETERMINERS = {"ne": ("un", False), "nemo": ("un", True), "te": ("el", False), "temo": ("el", True)}  # True: plural
PARTICLE = Piece("wa", ())
JOINTS = (("ka", ("and",)), ("demu", ("but",)), (",", (",",)))
STOP = (".", (".",))


def sentences(count: int, seed: int) -> Iterator[AlignedPair]:
    """`count` sentence pairs; the same seed gives the same pairs."""
    rng = random.Random(seed)
    for _ in range(count):
        yield _sentence(rng)


def _sentence(rng: random.Random) -> AlignedPair:
    while True:
        source, target = _clause(rng)
        for _ in range(rng.randrange(3)):
            joint, (more_source, more_target) = Piece(*rng.choice(JOINTS)), _clause(rng)
            source, target = [*source, joint, *more_source], [*target, joint, *more_target]
        stop = Piece(*STOP)
        if SHORTEST <= len(source) + 1 <= LONGEST:
            return _pair([*source, stop], [*target, stop])


def _clause(rng: random.Random) -> tuple[list[Piece], list[Piece]]:
    """The pieces of a clause in source order and in target order."""
    subject, plural = _phrase(rng)
    if rng.random() < 0.3:
        subject = [*subject, PARTICLE]
    word, translation = rng.choice(list(LEXICON.verbs.items()))
    verb = Piece(word, (translation + "en" if plural else translation + "a",))
    final = rng.random() < 0.65
    rest: list[Piece] = []
    for _ in range(rng.randint(0, 4 if final else 2)):
        adverb = rng.random() < 0.4
        rest += [Piece(*rng.choice(list(LEXICON.adverbs.items())))] if adverb else _phrase(rng)[0]
    target = [*subject, verb, *rest]
    return ([*subject, *rest, verb] if final else target), target


def _phrase(rng: random.Random) -> tuple[list[Piece], bool]:
    """A noun with its determiner and perhaps an adjective, and whether it is plural."""
    determiner, (article, plural) = rng.choice(list(DETERMINERS.items()))
    pieces = [Piece(determiner, (article,))]
    if rng.random() < 0.4:
        word, translation = rng.choice(list(LEXICON.adjectives.items()))
        pieces.append(Piece(word, (translation + "e" if plural else translation,)))
    word, translation = rng.choice(list(LEXICON.nouns.items()))
    pieces.append(Piece(word, (translation + "s" if plural else translation,)))
    return pieces, plural


def _pair(source: list[Piece], target: list[Piece]) -> AlignedPair:
    place = {id(piece): position for position, piece in enumerate(source)}
    origins = [(place[id(piece)], word) for piece in target for word in piece.target]
    return AlignedPair(
        source=" ".join(piece.source for piece in source),
        target=" ".join(word for _, word in origins),
        alignment=tuple((origin, position) for position, (origin, _) in enumerate(origins)),
    )

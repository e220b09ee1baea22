"""Sentence pairs whose words were aligned by hand, mapped to a model's tokens.

An alignment file has one line per pair: `3-4` means that source word 3 and target word 4 surely translate each other, `3p4` that
they possibly do. Words are separated by white space and counted from 1. Such texts are tokenised (`nicht , daß`), while a model
may have been trained on ordinary text (`nicht, daß`). For such a model punctuation is joined to its word, and every word of the
alignment still knows its own tokens.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from bethink.errors import DataError
from bethink.evaluate.instances import read_lines
from bethink.text import Vocabulary, normalise
from bethink.toy import AlignedPair

if TYPE_CHECKING:
    from bethink.translator import Translator

LINK = re.compile(r"(\d+)([-p])(\d+)")
_CLOSING = re.compile(r"[.,!?;:%…)\]}»”]+|['’](?:s|S|t|re|ve|ll|d|m)")
_OPENING = re.compile(r"[(\[{«„“]+")


@dataclass(frozen=True)
class Side:
    """One side of a pair in the tokens of a model."""

    words: tuple[tuple[int, ...], ...]  # the tokens of each word between white space
    spans: tuple[tuple[int, int], ...]  # the tokens of each word of the alignment: first, and one past the last

    @property
    def ids(self) -> list[int]:
        return [token for word in self.words for token in word]


@dataclass(frozen=True)
class Gold:
    """A pair in tokens."""

    text: str  # the source, as it is given to the model
    source: Side
    target: Side
    alignment: tuple[tuple[int, int], ...]  # of words

    @property
    def furthest(self) -> dict[int, int]:
        """For each aligned target word, how many source tokens must be read to have read every word it translates."""
        found: dict[int, int] = {}
        for i, j in self.alignment:
            found[j] = max(found.get(j, 0), self.source.spans[i][1])
        return found

    @property
    def translations(self) -> dict[int, list[int]]:
        """For each aligned source token, the positions of the target tokens that translate it."""
        found: dict[int, list[int]] = {}
        for i, j in self.alignment:
            for token in range(*self.source.spans[i]):
                found.setdefault(token, []).extend(range(*self.target.spans[j]))
        return found


def read_pairs(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    alignment: str | os.PathLike[str] | None = None,
    *,
    sure: bool = False,
    limit: int | None = None,
) -> list[AlignedPair]:
    """Pairs from a source file, a target file and, if given, a file of links; `sure` drops the possible links."""
    sources, targets = _lines(source), _lines(target)
    links = _lines(alignment) if alignment is not None else [""] * len(sources)
    for name, lines in ((target, targets), (alignment, links)):
        if len(lines) != len(sources):
            raise DataError(f"{source} has {len(sources)} lines but {name} has {len(lines)}; expected as many of each")
    found = []
    for number, (left, right, line) in enumerate(zip(sources, targets, links, strict=True), start=1):
        where = f"{alignment}, line {number}"
        found.append(
            AlignedPair(left, right, parse_links(line, len(left.split()), len(right.split()), where, sure=sure))
        )
    kept = [pair for pair in found if pair.source.split() and pair.target.split()][:limit]
    if not kept:
        raise DataError(f"{source} and {target} have no pair of sentences to look at")
    return kept


def parse_links(
    line: str, source: int, target: int, where: str = "the alignment", *, sure: bool = False
) -> tuple[tuple[int, int], ...]:
    """The links of one line, counted from 0."""
    links = []
    for text in line.split():
        found = LINK.fullmatch(text)
        if not found:
            raise DataError(f"{where} has '{text}'; expected links such as 3-4 (sure) or 3p4 (possible)")
        i, j = int(found[1]), int(found[3])
        if not (1 <= i <= source and 1 <= j <= target):
            raise DataError(
                f"{where} links {i} to {j}, but the sentences have {source} and {target} words; words count from 1"
            )
        if not (sure and found[2] == "p"):
            links.append((i - 1, j - 1))
    return tuple(sorted(set(links)))


def _lines(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a file in UTF-8 or, as old alignment sets are, in Latin-1."""
    try:
        data = Path(path).read_bytes()
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1").removesuffix("\n").replace("\r", "").split("\n")
    except OSError:
        pass  # read_lines raises the error for the user
    return read_lines(path)


def golden(translator: Translator, pair: AlignedPair, *, tidy: bool | None = None) -> Gold:
    """A pair in the tokens of a model; `tidy` joins punctuation to its word, by default if the model has subwords."""
    tidy = translator.source.kind != "words" if tidy is None else tidy
    left = _glued(pair.source.split()) if tidy else [[word] for word in pair.source.split()]
    right = _glued(pair.target.split()) if tidy else [[word] for word in pair.target.split()]
    text = " ".join("".join(parts) for parts in left)
    return Gold(text, side(translator.source, left), side(translator.target, right), pair.alignment)


def side(vocabulary: Vocabulary, words: Sequence[Sequence[str]]) -> Side:
    """The tokens of words, each given as the parts that the alignment links, and the tokens of each part."""
    tokens: list[tuple[int, ...]] = []
    spans: list[tuple[int, int]] = []
    begin = 0
    for parts in words:
        ids = vocabulary.encode(normalise("".join(parts)) or "".join(parts))
        spans += [(begin + first, begin + last) for first, last in _shares(vocabulary, ids, parts)]
        begin += len(ids)
        tokens.append(ids)
    return Side(tuple(tokens), tuple(spans))


def _shares(vocabulary: Vocabulary, ids: Sequence[int], parts: Sequence[str]) -> list[tuple[int, int]]:
    """The tokens of each part of a word; a token belongs to every part that it shares a character with."""
    if len(parts) == 1:
        return [(0, len(ids))]
    ends = [len(vocabulary.decode(ids[: n + 1])) for n in range(len(ids))]
    found, start = [], 0
    for stop in accumulate(map(len, parts)):
        first = sum(end <= start for end in ends)
        last = min(sum(end < stop for end in ends) + 1, len(ids))
        found.append((min(first, len(ids) - 1), last))
        start = stop
    return found


def _glued(words: Sequence[str]) -> list[list[str]]:
    """Tokenised words grouped as in ordinary text: closing punctuation joins the word before, opening the word after."""
    groups: list[list[str]] = []
    glue, quoted = False, False
    for word in words:
        opens, closes = bool(_OPENING.fullmatch(word)), bool(_CLOSING.fullmatch(word))
        if word in ('"', "'"):
            opens, closes, quoted = not quoted, quoted, not quoted
        if groups and (glue or closes):
            groups[-1].append(word)
        else:
            groups.append([word])
        glue = opens
    return groups

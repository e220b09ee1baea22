"""Sentence pairs whose words were aligned by hand, mapped to a model's tokens.

The alignment files are those of `evaluate/links.py`. Such texts are tokenised (`nicht , daß`), while a model
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
from bethink.evaluate.links import parse_links
from bethink.files import read_lines
from bethink.text import Vocabulary, normalise
from bethink.toy import AlignedPair

if TYPE_CHECKING:
    from bethink.translator import Translator

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

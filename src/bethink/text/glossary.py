"""A glossary: terms of the source language and how they are to be written, as in `Wärmepumpe → heat pump`.

Upper and lower case do not matter, except in a term all in capitals. A term whose last letter is followed by `*` also stands for its longer
forms (`Wärmepumpe*`: Wärmepumpen). The translation is written as it is given; it is not inflected.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bethink.errors import DataError
from bethink.text.clean import LINE_END, normalise

MOST_TERMS = 1000
LONGEST_TERM = 100  # characters
MOST_WORDS = 5  # of a source term
_FORM = 'expected lines with a term, a tab and its translation, or, in a .toml file, "term" = "translation"'
_EDGES = ".,;:!?…()[]{}\"'“”„‚‘’«»‹›*"  # signs around a term in a text


class Glossary:
    """Knows the translation of a term, and whether words may become one."""

    def __init__(self, terms: Mapping[str, str], name: str = "the glossary") -> None:
        if len(terms) > MOST_TERMS:
            raise DataError(f"{name} has {len(terms):,} terms; expected at most {MOST_TERMS:,}")
        self._whole: dict[str, str] = {}
        self._stems: dict[str, str] = {}
        self._beginnings: set[str] = set()  # of terms of several words
        for term, translation in terms.items():
            self._add(term, translation, name)
        self.fingerprint = hashlib.sha256(repr(sorted(terms.items())).encode()).hexdigest()[:8]

    def _add(self, term: str, translation: str, name: str) -> None:
        if not isinstance(translation, str):
            raise DataError(f"{name} translates '{term}' as {translation!r}; expected text")
        source, target = normalise(term), normalise(translation)
        words = source.split()
        if not source.strip(_EDGES) or not target:
            raise DataError(f"{name} has '{term}' → '{translation}'; expected words on both sides")
        if max(len(source), len(target)) > LONGEST_TERM or len(words) > MOST_WORDS:
            raise DataError(
                f"{name} has the term '{term[:60]}'; expected at most {LONGEST_TERM} characters and {MOST_WORDS} words"
            )
        stem = source.endswith("*")
        key = _key(source.removesuffix("*"))
        known = self._stems if stem else self._whole
        if known.setdefault(key, target) != target:
            raise DataError(f"{name} has '{term}' twice, as '{known[key]}' and as '{target}'; remove one")
        self._beginnings.update(_key(" ".join(words[:count])) for count in range(1, len(words)))

    @classmethod
    def load(cls, path: str | Path) -> Glossary:
        """Read a file: TOML if its name ends so, else a term, a tab and its translation on each line; `#` begins a comment."""
        try:
            text = Path(path).read_text("utf-8-sig")
        except UnicodeDecodeError:
            raise DataError(f"the glossary '{path}' is not UTF-8 text; save it as UTF-8") from None
        if Path(path).suffix == ".toml":
            try:
                return cls(tomllib.loads(text), f"the glossary '{path}'")
            except tomllib.TOMLDecodeError as error:
                raise DataError(f"the glossary '{path}' is not TOML: {error}; {_FORM}") from None
        return cls(dict(_from_lines(text, path)), f"the glossary '{path}'")

    def translation(self, term: str) -> str | None:
        """How a term is written, if it is one; without the signs around it."""
        for spelling in (term, term.casefold()):
            if spelling in self._whole:
                return self._whole[spelling]
        folded = term.casefold()
        ends = range(len(folded), 0, -1) if self._stems else ()
        return next((self._stems[folded[:end]] for end in ends if folded[:end] in self._stems), None)

    def begins_term(self, words: Sequence[str]) -> bool:
        """Whether more words may make these a term."""
        text = " ".join(words).lstrip(_EDGES)
        return text in self._beginnings or text.casefold() in self._beginnings


class TermFinder:
    """Joins the words of a term: as long as words may become a term, they wait for the next one."""

    def __init__(self, glossary: Glossary) -> None:
        self._glossary = glossary
        self._held: list[str] = []

    @property
    def settled(self) -> bool:
        return not self._held

    def joined(self, words: Iterable[str]) -> Iterator[str]:
        """Words and terms; the end of a line ends a term."""
        for word in words:
            self._held += [word] if word != LINE_END else []
            while self._held and (word == LINE_END or not self._glossary.begins_term(self._held)):
                yield self._first()
            if word == LINE_END:
                yield LINE_END

    def _first(self) -> str:
        """The longest term that the held words begin with, as one word; else the first of them."""
        ends = range(len(self._held), 1, -1)
        found = (
            end for end in ends if self._glossary.translation(" ".join(self._held[:end]).strip(_EDGES)) is not None
        )
        end = next(found, 1)
        taken, self._held = self._held[:end], self._held[end:]
        return " ".join(taken)


def _key(term: str) -> str:
    return term if term.isupper() else term.casefold()


def _from_lines(text: str, path: str | Path) -> Iterator[tuple[str, str]]:
    seen: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = [part.strip() for part in line.split("\t")]
        if len(parts) != 2 or not all(parts):
            raise DataError(f"line {number} of the glossary '{path}' is {line[:80]!r}; {_FORM}")
        if seen.setdefault(parts[0], parts[1]) != parts[1]:
            raise DataError(
                f"line {number} of the glossary '{path}' has '{parts[0]}' a second time; remove one of them"
            )
        yield parts[0], parts[1]

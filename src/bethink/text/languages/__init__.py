"""What is known of a language, its negations, numbers, hesitations and names: one TOML file per language."""

from __future__ import annotations

import functools
import random
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

APOSTROPHES = str.maketrans("’ʼ‘", "'''")
# ISO 639: two letters for the three that other tools use, for the languages this project knows something of
TWO_LETTERS = dict(
    pair.split("=")
    for pair in "chi=zh zho=zh dan=da deu=de ger=de dut=nl nld=nl eng=en fra=fr fre=fr ind=id ita=it jpn=ja ltz=lb por=pt "
    "spa=es tur=tr vie=vi".split()
)
NUMBER = r"\d{{1,3}}(?:[{group}\u00a0\u202f ]\d{{3}})+(?!\d)(?:{decimal}\d+)?|\d+(?:[.,:]\d+)?"


@dataclass(frozen=True)
class Language:
    negation: re.Pattern[str]
    harmless: re.Pattern[str]
    doubtful: re.Pattern[str]
    number: re.Pattern[str]  # in digits
    group: str  # what stands between thousands
    bridge: str  # the word inside a number, as in two hundred and five
    words: Mapping[str, int]  # number words below 100
    other: tuple[tuple[re.Pattern[str], int], ...]  # ordinals
    scales: tuple[tuple[re.Pattern[str], int], ...]  # hundred and above
    hesitations: tuple[str, ...]  # what people say while they look for a word
    names: Mapping[str, frozenset[str]]  # words by kind that tell names from other nouns

    def negated(self, text: str) -> bool | None:
        """Whether a sentence denies something; None if that is not sure."""
        lower = _lower(text)
        if self.negators(text):
            return True
        return None if self.doubtful.search(self.harmless.sub("", lower)) else False

    def negators(self, text: str) -> list[int]:
        """Where the words that deny stand in the text."""
        without = self.harmless.sub(lambda found: re.sub(r"\S", "_", found[0]), _lower(text))
        return [found.start() for found in self.negation.finditer(without)]

    def numbers(self, text: str) -> set[float]:
        """The numbers of a text, in digits or words; 1 is left out, since it may be an article."""
        found: list[float] = []
        whole, part, last = 0.0, 0.0, 0  # 2 million 300 | 40 (thousand); the scale just read
        for token in self._tokens(text):
            scale, value = self._scale(token), self._value(token)
            if scale:
                part = (part or 1) * scale
                whole, part = (whole + part, 0.0) if scale > 100 else (whole, part)
                last = scale
            elif value is not None and last > value and not token[0].isdigit():
                part, last = part + value, 0
            elif not (token == self.bridge and last):
                found.append(whole + part)
                whole, part, last = 0.0, value or 0.0, 0
        return {number for number in [*found, whole + part] if number > 1}

    def _tokens(self, text: str) -> Iterator[str]:
        """Numbers, words and signs; two-year is two words, twenty-two one."""
        for token in self.number.findall(_lower(text)):
            yield from [token] if self._value(token) is not None else token.split("-")

    def _scale(self, token: str) -> int:
        """What a word multiplies the number before it by; 0 if it does not."""
        return next((value for pattern, value in self.scales if pattern.fullmatch(token)), 0)

    def _value(self, token: str) -> float | None:
        """The value of digits or of a number word, of several written as one included: zweihundertfünfzig."""
        if token[:1].isdigit():
            return self._digits(token)
        if token in self.words:
            return self.words[token]
        for pattern, value in self.other:
            if pattern.fullmatch(token):
                return value
        for pattern, scale in reversed(self.scales[:2]):  # thousand, then hundred
            if (found := pattern.search(token)) and found[0] != token:
                times, more = (
                    self._scale(part) or self._value(part) if part else default
                    for part, default in ((token[: found.start()], 1), (token[found.end() :], 0))
                )
                return None if times is None or more is None else times * scale + more
        return None

    def _digits(self, token: str) -> float:
        groups = rf"\d{{1,3}}(?:[{re.escape(self.group)}\u00a0\u202f ]\d{{3}})+"
        if found := re.match(rf"{groups}(?!\d)", token):
            return float(re.sub(r"\D", "", found[0]) + re.sub(r"\D", ".", token[found.end() :]))
        return float(re.sub(r"[,:]", ".", token))


def halting(line: str, hesitations: Sequence[str], draw: random.Random, share: float) -> str:
    """The line as somebody says it who looks for words: before a share of its words a hesitation, or the word twice."""
    said: list[str] = []
    for word in line.split():
        if draw.random() < share:
            said.append(draw.choice([*hesitations, word]))
        said.append(word)
    return " ".join(said)


def short(code: str) -> str:
    """The code of two letters, where there is one: de for deu, ger, de-AT and deu_Latn."""
    main = re.split("[-_]", code.strip().lower())[0]
    return TWO_LETTERS.get(main, main)


@functools.cache
def load(code: str) -> Language | None:
    """The language of a code such as de, deu, de-AT or deu_Latn; None if there is no file for it."""
    name = short(code)
    file = resources.files(__name__) / f"{name}.toml"
    if not (name.isalpha() and file.is_file()):  # a name with a dot or a slash might lead anywhere
        return None
    known = tomllib.loads(file.read_text("utf-8"))
    negation, numbers = known["negation"], known["numbers"]
    marks = {name: re.escape(numbers[name]) for name in ("group", "decimal")}
    return Language(
        negation=_any(negation["words"]),
        harmless=_any(negation["harmless"]),
        doubtful=_any(negation["doubtful"]),
        number=re.compile(rf"{NUMBER.format(**marks)}|[^\W\d_]+(?:-[^\W\d_]+)*|\S"),
        group=numbers["group"],
        bridge=numbers["bridge"],
        words=dict(_below_hundred(numbers["units"], numbers["tens"], numbers["compound"])),
        other=_values(numbers["other"]),
        scales=_values(numbers["scales"]),
        hesitations=tuple(known["speech"]["hesitations"]),
        names={kind: frozenset(words.split()) for kind, words in known.get("names", {}).items()},
    )


def _lower(text: str) -> str:
    return text.translate(APOSTROPHES).lower()


def _any(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{'|'.join(patterns)})(?![\w-])")


def _values(values: Mapping[str, int]) -> tuple[tuple[re.Pattern[str], int], ...]:
    return tuple((re.compile(pattern), value) for pattern, value in values.items())


def _below_hundred(units: list[str], tens: list[str], compound: str) -> Iterator[tuple[str, int]]:
    yield from ((word, value) for value, word in enumerate(units))
    for ten, word in enumerate(tens, start=2):
        yield word, 10 * ten
        yield from ((compound.format(unit=units[unit], ten=word), 10 * ten + unit) for unit in range(1, 10))

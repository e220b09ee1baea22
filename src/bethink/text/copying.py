"""Words that are not translated but carried over: addresses, codes, long numbers, foreign scripts; and words in capitals.

A model writes such words piece by piece and gets them wrong. So it reads a *stand-in* instead: a round number, or a name that is the same
in many languages. Models copy these nearly always, and where the stand-in comes out, the word itself is shown. What has not come out by
the end of the sentence follows in brackets; so does a number of three digits or more that the model should have written and did not. A
word in capitals is read in the spelling that the vocabulary knows best. A sentence of nothing but words to carry over, or of noise, is
copied without the model. All of it depends on the words and the vocabularies alone, so it is the same however the text is cut.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bethink.text.glossary import Glossary
from bethink.text.vocabulary import UNK, Vocabulary

# Measured on development text with the bundled model: see docs/method.md.
NUMBERS = ("650", "450", "250", "950", "750", "350", "550", "850")
NAMES = ("Kyoto", "Europol", "Eurostat", "Euratom", "Boston", "Frontex", "Galileo", "Eurojust")

SHORT = 4  # digits of a number that a model knows whose pieces are single digits
SPELLED = 3  # pieces from which on a word of digits is spelled out rather than known
MOST_PIECES = 3  # of a stand-in
LONGEST_READ = 48  # characters of a word without spaces that the model reads
NOISE = 1.7  # characters per piece, below which letters are noise; German text has four, and rare names two
LEAST_NOISE = 6  # pieces that must be seen before letters are called noise
EMPHASIS = 6  # letters from which on a single word in capitals is taken for an emphasised word, not for an acronym
MOST_HELD = 8  # words at the beginning of a sentence that wait until it is clear what they are

_EDGES = re.compile(r"""^([("'“”„‚‘«»‹›\[{¿¡‟*$£€]*)(.*?)([.,;:!?…)\]}"'”“’‘‟»«›‹*%‰€]*)$""", re.DOTALL)
_ADDRESS = re.compile(
    r"""\w://\S | ^www\.\w | [\w.+-]@\w | ^[@\#]\w | ^/\w[^/]*/\w   # https://a.b, www.a.b, a@b.c, @name, #tag, /usr/bin
    | \w{2}\.[a-z]{2,}(?:[/:?\#]|$) | \w\(\)$ | [\w)]=[\w(] | \w[$\\+]\w  # a.de/b, setup.exe, run(), a=b, C:\\a, Ctrl+C
    | _\w*[_.(\d] | \d_""",
    re.VERBOSE,
)
_DIGITS = re.compile(r"[-+−#§]*\d[\d.,:/()'+-]*°?")
_TIME = re.compile(r"^\d{1,2}:\d{1,2}$")  # and results: models know them, and languages write them differently
# 1990er, 20-jährige, G8-Gipfel
_TRANSLATABLE = re.compile(r"^\d[\d.,]*[a-zß-ÿ]+(?:$|-)|(?:^|-)[^\W\d_]{2,}[a-zß-ÿ]{2}(?:$|-)")
_NUMBER = re.compile(r"[1-9][0-9]{2,}")
_GROUPED = re.compile(r"\d{1,3}(?:[.,' \u00a0\u202f]\d{3})+(?!\d)")  # thousands, in any language's way
_UNIT = re.compile(r"([-+−]?\d[\d.,]*\d)(°?[A-Za-z]{0,4})")

# How languages write numbers: the sign between thousands and the one before decimals.
_MARKS = {"en": (",", ".")} | dict.fromkeys(("da", "de", "es", "id", "it", "nl", "pt", "tr", "vi"), (".", ","))


@dataclass(frozen=True, slots=True)
class Parts:
    """A word that is carried over, and the signs around it."""

    before: str
    copy: str
    after: str
    number: bool  # whether a number stands in for it, or a name
    term: bool = False  # whether `copy` is the translation of a term in a glossary


class Copier:
    """Finds the words of a text that are carried over. It has no state: one serves all who translate with a model."""

    def __init__(self, source: Vocabulary, target: Vocabulary, languages: tuple[str, str] = ("", "")) -> None:
        """`languages` are codes such as `de` and `en`; numbers are rewritten (1.250,5 → 1,250.5) where both are known."""
        self._source = source
        self._marks = [_MARKS[each] for each in languages if each in _MARKS]
        self._numbers, self._names = (
            tuple(each for each in words if _read_whole(source, each) and _read_whole(target, each))
            for words in (NUMBERS, NAMES)
        )
        self.glossary: Glossary | None = None

    def with_glossary(self, glossary: Glossary) -> Copier:
        """One that also carries terms over, as their translation."""
        made = copy.copy(self)
        made.glossary = glossary
        return made

    @property
    def useful(self) -> bool:
        """Whether the vocabularies know stand-ins of both kinds; most lists of words do not."""
        return bool(self._numbers and self._names)

    def stand_in(self, parts: Parts, present: Collection[str]) -> str | None:
        """A stand-in that is not present in the sentence yet, if there is one."""
        return next((each for each in (self._numbers if parts.number else self._names) if each not in present), None)

    def mentioned(self, word: str) -> list[str]:
        """The stand-ins that a word of the text happens to have."""
        return [each for each in (*self._numbers, *self._names) if each in word]

    def parts(self, word: str, used: Collection[str] = ()) -> Parts | None:
        """How a word is carried over; None for one that the model translates. `used`: stand-ins that the sentence already has."""
        if self.glossary:
            before, core, after = _edges(word)
            if (translation := self.glossary.translation(core)) is not None:
                return Parts(before, translation, after, number=False, term=True)
        mistaken = any(each in word for each in used)  # its translation could be taken for what the stand-in stands for
        if word.isalpha() and len(word) <= LONGEST_READ and not mistaken and _known(self._source, word):
            return None
        before, core, after = _edges(word)
        if not mistaken and not self._is_copied(core):
            return None
        return Parts(before, self._converted(core), after, bool(_DIGITS.fullmatch(core) or _UNIT.fullmatch(core)))

    def number(self, word: str) -> str | None:
        """The digits of a number that the model translates and nobody would write in words: 1994, not 200."""
        core = _edges(word)[1]
        return core if _NUMBER.fullmatch(core) and not core.endswith("00") else None

    def copy(self, word: str) -> str:
        """A word of a sentence that is copied, as it is shown."""
        parts = self.parts(word)
        return f"{parts.before}{parts.copy}{parts.after}" if parts else word

    def _is_copied(self, core: str) -> bool:
        if _ADDRESS.search(core):
            return True
        if self._spaceless(core):
            return False
        if len(core) > LONGEST_READ:
            return True
        if self._spells_out(core):
            return not (_TIME if _DIGITS.fullmatch(core) else _TRANSLATABLE).search(core)
        return not _known(self._source, core) and self._is_foreign(core)

    def _spells_out(self, core: str) -> bool:
        """Whether the model writes this number piece by piece; it knows short ones, and years, even digit by digit."""
        if not any(character.isdigit() for character in core) or _pieces(self._source, core) < SPELLED:
            return False
        return not (core.isdigit() and len(core) <= SHORT and _pieces(self._source, core) == len(core))

    def _is_foreign(self, core: str) -> bool:
        """Whether an unknown character is a part of the word, not a sign beside it."""
        unknown = [character for character in core if not _known(self._source, character)]
        letters = sum(character.isalpha() for character in core)
        return letters < 2 or any(character.isalnum() for character in unknown)

    def _spaceless(self, core: str) -> bool:
        """Whether these are mostly known letters of a script without capitals; such scripts often put no spaces between words."""
        letters = [character for character in core if character.isalpha()]
        if not letters or any(map(_has_case, letters)):
            return False
        return 2 * sum(_known(self._source, letter) for letter in letters) > len(letters)

    def _converted(self, core: str) -> str:
        """A number in the way in which the target language writes it."""
        number = _UNIT.fullmatch(core)
        if len(self._marks) < 2 or number is None:
            return core
        (group, point), marks = self._marks
        form = rf"[-+−]?(?:\d{{1,3}}(?:{re.escape(group)}\d{{3}})+|\d+)(?:{re.escape(point)}\d+)?"
        if not re.fullmatch(form, number[1]):
            return core
        return number[1].translate(str.maketrans(group + point, marks[0] + marks[1])) + number[2]

    # capitals

    def cased(self, word: str, *, among_capitals: bool) -> str:
        """A word in capitals in the spelling that the vocabulary knows best; on its own, where it may be an acronym, only a long one."""
        before, core, after = _edges(word)
        if not is_capital(core) or not core.replace("-", "").isalpha():
            return word
        capitalised = "-".join(part.capitalize() for part in core.split("-"))
        spellings = {each: self._source.encode(each) for each in (core, core.lower(), capitalised)}
        best = min(spellings, key=lambda each: (UNK in spellings[each], len(spellings[each]), sum(spellings[each])))
        if not among_capitals and (len(core) < EMPHASIS or len(spellings[best]) > 1):
            return word
        return before + best + after


class Beginning:
    """The first words of a sentence, as long as it is not clear whether there is anything to translate."""

    def __init__(self, copier: Copier, source: Vocabulary) -> None:
        self.words: list[str] = []
        self._copier, self._source = copier, source
        self._letters = self._pieces = 0  # of the words that are not carried over
        self._plain = True  # whether these are letters of a script with capitals

    def add(self, word: str) -> None:
        self.words.append(word)
        if self._plain and any(map(str.isalnum, word)) and self._copier.parts(word) is None:
            core = word.strip(".,;:!?…")
            self._plain = core.isalpha() and not is_capital(core) and any(map(_has_case, core))
            self._letters += len(core)
            self._pieces += len(self._source.encode(core)) if self._plain else 0

    @property
    def unclear(self) -> bool:
        """Whether the next word must be known before these can be read."""
        capital = len(self.words) == 1 and self._copier.cased(self.words[0], among_capitals=True) != self.words[0]
        return capital or self._nothing_to_read

    @property
    def copied(self) -> bool:
        """Whether these words, if they are a whole sentence, are copied: all are carried over, or noise."""
        return self._nothing_to_read and not 0 < self._pieces < LEAST_NOISE

    @property
    def _nothing_to_read(self) -> bool:
        return self._plain and self._letters <= NOISE * self._pieces


def is_capital(word: str) -> bool:
    """Whether a word has two letters or more, all of them capitals."""
    return word.isupper() and sum(character.isalpha() for character in word) >= 2


def stand_ins(text: str, copies: Mapping[str, str]) -> list[str]:
    """Those of these stand-ins that a text has."""
    return _pattern(copies).findall(text) if any(each in text for each in copies) else []


def missing(numbers: Collection[str], text: str) -> list[str]:
    """Those of these numbers that a text lacks."""
    if not numbers:
        return []
    written = {re.sub(r"\D", "", found) for found in _GROUPED.findall(text)}.union(re.findall(r"\d+", text))
    return [number for number in numbers if number not in written]


def restored(text: str, copies: Mapping[str, str]) -> str:
    """The text with each stand-in replaced by the word for which it stands."""
    return _pattern(copies).sub(lambda found: copies[found[0]], text) if copies else text


def _pattern(copies: Mapping[str, str]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(copies)})(?!\w)")


def _edges(word: str) -> tuple[str, str, str]:
    """The word without the signs around it, and these signs; brackets that belong to it stay."""
    before, core, after = _EDGES.match(word).groups()  # type: ignore[union-attr]
    if not core:
        return "", word, ""
    while after[:1] in (")", "]", "}") and core.count("([{"[")]}".index(after[0])]) > core.count(after[0]):
        core, after = core + after[0], after[1:]
    return before, core, after


def _known(vocabulary: Vocabulary, text: str) -> bool:
    return not any(token == UNK or vocabulary.spells(token) for token in vocabulary.encode(text))


def _pieces(vocabulary: Vocabulary, word: str) -> int:
    """The pieces of a word, without one that only marks its end."""
    ids = vocabulary.encode(word)
    return len(ids) - (len(ids) > 1 and not vocabulary.decode(ids[-1:]))


def _read_whole(vocabulary: Vocabulary, word: str) -> bool:
    """Whether a word is a few known pieces, from which it comes out as it went in."""
    whole = vocabulary.decode(vocabulary.encode(word)) == word
    return whole and _known(vocabulary, word) and _pieces(vocabulary, word) <= MOST_PIECES


def _has_case(character: str) -> bool:
    return character.lower() != character.upper()

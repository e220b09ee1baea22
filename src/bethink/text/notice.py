"""What an interpreter wants to see at once: the numbers and names of a talk, each with the word that is read.

Simple rules that look at one word and the one before it, so nothing waits. A number is a word with a digit, or a German or English number
word. A name is a word with a capital inside a sentence. In German all nouns have one; there a word is no name

- if an article, adjective, number or other word that belongs to a noun stands before it; a word after "und" is what the one before is;
- or if the model's vocabulary knows it as a noun: whole or inflected as one piece, as the end of a compound, or by its ending.

It is a name all the same after a title (Herr, Ministerin), if it has capitals inside (NATO, YouTube), or if it is a well-known place. So
some rare nouns are taken for names, and a name that begins a sentence is missed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from bethink.text.languages import load
from bethink.text.vocabulary import Vocabulary

Notice: TypeAlias = Literal["number", "name"]

NOUNS_HAVE_CAPITALS = ("de", "lb")
_EDGES = ".,;:!?…()[]{}\"'“”„‚‘’«»‹›–—-"
_CLAUSE = ".,;:!?…–—"  # after such a sign, the word before says nothing

_UNITS = "zwei|zwo|drei|drit|vier|fünf|sechs|sieben|acht|neun"
_TENS = "zehn|zwanzig|dreißig|vierzig|fünfzig|sechzig|siebzig|achtzig|neunzig"
_GERMAN = re.compile(
    rf"(?!(?:ein|und|einmal)$)(?:ein|und|elf|zwölf|sech|sieb|hundert|tausend|{_UNITS}|{_TENS})+(?:s|mal|ste[nrs]?|te[nrs]?)?"
    r"|null|anderthalb|eineinhalb|dutzende?|(?:million|milliarde|billion)(?:en)?"
)
_ENGLISH = re.compile(
    r"zero|(?:(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)-?)?(?:one|two|three|four|five|six|seven|eight|nine)?"
    r"|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|hundreds?|thousands?|[mb]illions?|dozens?"
)
_NOT_ALONE = frozenset({"", "one"})  # "one" is mostly no number
_ARTICLES = re.compile(
    r"d(?:ie|er|as|en|em|es)|(?:[kmds]?ein|ihr|unser|eur?er|jed|dies|welch|manch|solch)(?:e[nmrs]?)?|[iaz]m|zu[mr]|vom|beim|ins|ans|pro"
)
_AGREEING = re.compile(r"\w+(?:e|en|er|es|em)|viel|mehr|wenig")
# of polite address
_PRONOUNS = re.compile(r"Sie|Ihnen|Ihr(?:e[nmrs]?)?|Du|Di(?:r|ch)|Dein(?:e[nmrs]?)?|Euch|Euer|Eur(?:e[nmrs]?)")
_CAPITALS_INSIDE = re.compile(r"[^\W\d_][^-]*[A-ZÄÖÜ][^-]*")
_AND = frozenset({"und", "oder", "sowie"})

# German, as all below
_TITLES = re.compile(
    r"Herrn?|Frau|Dr\.?|Prof\.?|Sir|Lady|Lord|König(?:in)?|Prinz(?:essin)?|Papst|Richter(?:in)?|General|Oberst|Trainer(?:in)?"
    r"|(?:\w*?)(?:[Pp]räsident|[Kk]anzler|[Mm]inister|[Pp]rofessor|[Kk]ommissar|[Ss]enator|[Bb]ürgermeister|[Ss]ekretär|[Ss]precher|[Cc]hef"
    r"|[Ff]ührer|[Kk]olleg|[Aa]bgeordnete|[Bb]otschafter)(?:in|en|n|e|s)?"
)
_NOUN_ENDINGS = re.compile(
    r"\w{2,}(?:ungs?|ungen|(?:heit|keit|schaft|tion|sion|tät)s?(?:en)?|nisse?n?|ismus|tums?|linge?n?|mente?n?|isch|logen?|logie"
    r"|graphie|iker(?:in)?|nomie|chen|leute|stoffe?|zeuge?|werke?n?|(?<!i)(?<!ing)(?<!haus)(?<!kirch)en|ern)"
)  # the last two are plurals; places have other endings before -en (Italien, Göttingen)
_TAILS = re.compile(
    r"(?:berg|burg|land|dorf|stein|bach|feld|hof|mann|wald|stadt|furt|haus|hausen|kirchen|heim|baum|thal|see|mark|ton|field|wood)(?:e[nrs]?|s)?"
)  # of compounds and of names alike
_UMLAUTS = str.maketrans("äöü", "aou")
_INFLECTION = re.compile(r"(?:innen|nen|ern|en|er|es|n|e|s)$")


class Noticer:
    """Follows one text, word by word."""

    def __init__(self, language: str = "", vocabulary: Vocabulary | None = None) -> None:
        """`language` is a code such as `de`; `vocabulary` that of the model, whose pieces show which nouns are common."""
        self._nouns = language in NOUNS_HAVE_CAPITALS
        cuts = vocabulary is not None and vocabulary.kind != "words"  # a list of words has names and nouns alike
        self._common = Common(vocabulary) if vocabulary is not None and cuts and language == "de" else None
        self._before = ""
        self._begins = False  # whether the word before begins its sentence
        self._noun = False  # whether the last word with a capital was taken for a noun
        self._named = False  # whether the word before was taken for a name

    def feed(self, word: str, *, first: bool) -> Notice | None:
        """What is to be noticed about the next word; `first`: it begins a sentence."""
        before, self._before = "" if first else self._before, word
        begins, self._begins = self._begins, first
        core = word.strip(_EDGES)
        numeric = is_number(core)
        if numeric or not core[:1].isupper():
            self._named = False
        if numeric:
            return "number"
        if first or not core[:1].isupper() or core in ("I", "") or core.startswith(("I'", "I’")):
            return None
        if not self._nouns:
            return "name"
        if before not in _AND:
            self._noun = bool(_PRONOUNS.fullmatch(core)) or _agrees(before, begins)
        if self._common is None:
            return None if self._noun else "name"
        return "name" if self._is_name(core, before) else None

    def _is_name(self, core: str, before: str) -> bool:
        """Whether a German word with a capital is a name, as far as it and the word before say so."""
        assert self._common is not None
        apart = before.endswith((*_CLAUSE, "s"))  # a comma, or the s of "Israels Grenzen"
        follows, self._named = self._named and not apart, False
        if len(core) == 1 or core.lower() in _german()["small"] or _TITLES.fullmatch(core):
            self._noun = True
        elif (
            _CAPITALS_INSIDE.fullmatch(core)
            or _TITLES.fullmatch(before)
            or follows
            or {core, core.removesuffix("s")} & _german()["places"]
        ):
            self._noun = False
        elif not self._noun:
            self._noun = self._common.has(core)
        self._named = not self._noun
        return self._named


class Common:
    """Which German nouns are common, as the pieces of a vocabulary show."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._pieces = _texts(vocabulary)

    def has(self, word: str) -> bool:
        last = word.rpartition("-")[2]  # of Start-up, Ferrero-Costa
        if last != word:
            return last.islower() or self.has(last)
        return bool(_NOUN_ENDINGS.fullmatch(word)) or self._known(word) or self._is_compound(word)

    def _known(self, word: str, least: int = 3) -> bool:
        """Whether the word, or the word without an ending, is one piece and has so many letters."""
        stem = _INFLECTION.sub("", word)
        stems = {word, stem, word[:-1] if word.endswith(("n", "s", "e")) else word}
        stems |= {each[0] + each[1:].translate(_UMLAUTS) for each in stems if each}  # Brände, of Brand
        return any(each in self._pieces for each in stems if len(each) >= least)

    def _is_compound(self, word: str) -> bool:
        """Whether the word ends in a noun that is one piece; not in one that names end in."""
        tails = (word[at:] for at in range(3, len(word) - 3))
        return any(self._known(tail.capitalize(), 4) for tail in tails if not _TAILS.fullmatch(tail))


@functools.cache
def _german() -> Mapping[str, frozenset[str]]:
    known = load("de")
    assert known, "its file is in this package"
    return known.names


@functools.lru_cache(8)
def _texts(vocabulary: Vocabulary) -> frozenset[str]:
    """The texts of all pieces: a common noun is one, at least where it begins a compound."""
    return frozenset(vocabulary.decode([token]).strip() for token in range(len(vocabulary)))


def is_number(core: str) -> bool:
    """Whether a word, without the signs around it, has a digit or is a number word."""
    folded = core.lower()
    if any(character.isdigit() for character in core):
        return True
    return folded not in _NOT_ALONE and bool(_GERMAN.fullmatch(folded) or _ENGLISH.fullmatch(folded))


def _agrees(before: str, begins: bool) -> bool:
    """Whether a German word probably belongs to the noun after it; `begins`: it begins its sentence, so its capital says nothing."""
    core = before.strip(_EDGES)
    if before.endswith(tuple(_CLAUSE)) or core.lower() in _german()["prepositions"] or _TITLES.fullmatch(core):
        return False
    agrees = bool(_AGREEING.fullmatch(core)) and (begins or core.islower())
    return agrees or bool(_ARTICLES.fullmatch(core.lower())) or is_number(core)

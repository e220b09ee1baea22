"""What an interpreter wants to see at once: the numbers and names of a talk, each with the word that is read.

Simple rules that look at one word and the one before it, so nothing waits. A number is a word with a digit, or a German or English number
word. A name is a word with a capital inside a sentence; in German, where all nouns have one, only if no article, adjective, number or other
word that belongs to a noun stands before it; a word after "und" is what the one before "und" is. So some nouns are taken for names, and a
name that begins a sentence is missed.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

Notice: TypeAlias = Literal["number", "name"]

NOUNS_HAVE_CAPITALS = ("de", "lb")
_EDGES = ".,;:!?…()[]{}\"'“”„‚‘’«»‹›–—-"
_CLAUSE = ".,;:!?…–—"  # after such a sign, the word before says nothing

_UNITS = "zwei|zwo|drei|vier|fünf|sechs|sieben|acht|neun"
_TENS = "zehn|zwanzig|dreißig|vierzig|fünfzig|sechzig|siebzig|achtzig|neunzig"
_GERMAN = re.compile(
    rf"(?!(?:ein|und)$)(?:ein|und|elf|zwölf|sech|sieb|hundert|tausend|{_UNITS}|{_TENS})+(?:s|mal|ste[nrs]?|te[nrs]?)?"
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
_PRONOUNS = re.compile(
    r"Sie|Ihnen|Ihr(?:e[nmrs]?)?|Du|Di(?:r|ch)|Dein(?:e[nmrs]?)?|Euch|Euer|Eur(?:e[nmrs]?)"
)  # of polite address
_AND = frozenset({"und", "oder", "sowie"})


class Noticer:
    """Follows one text, word by word."""

    def __init__(self, language: str = "") -> None:
        """`language` is a code such as `de`."""
        self._nouns = language in NOUNS_HAVE_CAPITALS
        self._before = ""
        self._begins = False  # whether the word before begins its sentence
        self._noun = False  # whether the last word with a capital was taken for a noun

    def feed(self, word: str, *, first: bool) -> Notice | None:
        """What is to be noticed about the next word; `first`: it begins a sentence."""
        before, self._before = "" if first else self._before, word
        begins, self._begins = self._begins, first
        core = word.strip(_EDGES)
        if is_number(core):
            return "number"
        if first or not core[:1].isupper() or core in ("I", "") or core.startswith(("I'", "I’")):
            return None
        if not self._nouns:
            return "name"
        if before not in _AND:
            self._noun = bool(_PRONOUNS.fullmatch(core)) or _agrees(before, begins)
        return None if self._noun else "name"


def is_number(core: str) -> bool:
    """Whether a word, without the signs around it, has a digit or is a number word."""
    folded = core.lower()
    if any(character.isdigit() for character in core):
        return True
    return folded not in _NOT_ALONE and bool(_GERMAN.fullmatch(folded) or _ENGLISH.fullmatch(folded))


def _agrees(before: str, begins: bool) -> bool:
    """Whether a German word probably belongs to the noun after it; `begins`: it begins its sentence, so its capital says nothing."""
    core = before.strip(_EDGES)
    if before.endswith(tuple(_CLAUSE)):
        return False
    return bool(
        _ARTICLES.fullmatch(core.lower()) or (_AGREEING.fullmatch(core) and (begins or core.islower()))
    ) or is_number(core)

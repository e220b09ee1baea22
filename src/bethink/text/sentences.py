"""Decides from one word whether a sentence ends; in a stream the next word is not known yet."""

from __future__ import annotations

import re
from collections.abc import Sequence

_OPENERS = "\"'“”„‚‘«»‹›([{¿¡*_「『（【《"
_BRACKETS = ")]}"
_CLOSERS = "\"'”“’‘»«›‹*_」』）】》" + _BRACKETS
_UNSPACED_MARKS = "。！？｡။។"  # Chinese, Japanese, Burmese, Khmer: mostly no space follows
_FINAL_MARKS = "!?…‽⁇⁈⁉‼؟।۔።։" + _UNSPACED_MARKS
_CLAUSE_MARKS = ",;:–—،，；："

_NO_END = re.compile(
    r"(?:[^\W\d_]\.)*[^\W\d_]"  # initials and dotted abbreviations: J. — z.B. — e.g. — U.S.
    r"|[0-9]{1,3}"  # ordinals: am 3. Mai
    r"|[IVX]{2,}"  # numbered kings and chapters: Ludwig XIV.
)

# A lower-case entry also matches with a capital at its start; an entry with a capital matches only so ("Fig. 5", not "a fig.").
_ABBREVIATIONS = frozenset(
    # German
    """Abb Abs Abt Anm Apr Aufl Aug Ausg Bd Bde Bhf Bio Bsp Chr Dez Dipl Dr Feb Fr Frl Ges Hbf Hr Hrn Hrsg Ing Jan
    Jh Jhd Jhdt Kap Kfm Mag Mio Mrd Nov Nr Okt Pfr Pkt Prof Sept St Stck Std Str Tab Tel Tsd Univ Verf Vors
    Ziff allg bspw bzgl bzw ca dgl diesbzgl ebd eigtl einschl entspr erg etw evtl exkl gegr geb gem gesch gest gez ggf ggü inkl
    insb insbes jew jmd kath kgl lat lfd max männl nachm näml prot resp sog spez staatl stellv svw tägl u urspr verh versch
    vgl vorm weibl wiss wörtl zit zz zzgl zzt""".split()
    # English
    + """Adm Ave Blvd Bros Capt Cmdr Co Col Corp Dec Dept Ed Eds Eq Esq Fig Figs Ft Gen Gov Hon Inc Jr Lt Ltd Maj Messrs Mr Mrs Ms Mt
    Mx No Nos Oct Ph.D Pres Rep Rev Sec Sen Sgt Sr Supt Vol Vols al approx assoc cf cont est incl pp viz vs""".split()
)
_AFTER = re.escape(_FINAL_MARKS + "\"'”’»›」』）】》" + _BRACKETS)  # here “ and ‘ open what follows
_UNSPACED_END = re.compile(rf"[{_UNSPACED_MARKS}][{_AFTER}]*(?=[^{_AFTER}])")
# How people are addressed in German and English: what may stand first, and what else has no capital. A verb is in neither.
_ADDRESS = frozenset(
    """herr frau damen herren meine mein sehr liebe lieber liebes geehrte geehrter geehrtes verehrte verehrter verehrtes hochverehrte
    hochverehrter werte werter hohes hoher ladies dear mr mrs ms madam""".split()
)
_WITHIN = _ADDRESS | frozenset(
    "und lieben geehrten verehrten hochverehrten werten von der des für and of gentlemen colleagues friends".split()
)
_NO_ADDRESS = frozenset("güte grüße zeit fresse god me".split())  # meine Güte!
_LONGEST_ADDRESS = 14  # words
_ANSWERS = frozenset({"No"})  # an abbreviation inside a sentence, a whole sentence at its start
_LIST_ENDS = frozenset({"etc", "ff", "usf", "usw"})  # mostly end a sentence, but not inside brackets


def ends_sentence(word: str, *, first: bool = False) -> bool:
    """Whether a sentence ends after this word; `first`: it is the first word of the sentence."""
    core = word.rstrip(_CLOSERS)
    closing = word[len(core) :]
    if not core or (core[0] in "([" and _bracketed(closing)):  # an aside of one word: (sic!)
        return False
    if core[-1] in _FINAL_MARKS or core.endswith(".."):
        return True
    return core[-1] == "." and _full_stop_ends(core[:-1].lstrip(_OPENERS), closing, first)


def addresses(words: Sequence[str]) -> bool:
    """Whether words that end with "!" only address somebody: Sehr geehrte Damen und Herren! What follows belongs to their sentence."""
    if not words[-1].endswith("!") or not 2 <= len(words) <= _LONGEST_ADDRESS:
        return False
    names = [word.strip(",!") for word in words]
    return (
        names[0].lower() in _ADDRESS
        and all(name[:1].isupper() or name in _WITHIN for name in names[1:])
        and not any(name.lower() in _NO_ADDRESS for name in names)
        and not all(name.isupper() for name in names)  # a headline in capitals has verbs, too
    )


def unspaced_end(text: str) -> int | None:
    """Where the first sentence ends that another one follows without a space; it takes the next character to know."""
    found = _UNSPACED_END.search(text)
    return found.end() if found else None


def ends_clause(word: str) -> bool:
    """Whether a sentence that is too long may be cut after this word."""
    return word.rstrip(_CLOSERS)[-1:] in tuple(_CLAUSE_MARKS)


def _full_stop_ends(stem: str, closing: str, first: bool) -> bool:
    last = re.split(r"[-/]", stem)[-1]  # the "Ing" of "Dipl.-Ing."
    if last in _LIST_ENDS:
        return not _bracketed(closing)
    if first and stem in _ANSWERS:
        return True
    return not (_NO_END.fullmatch(stem) or last in _ABBREVIATIONS or last[:1].lower() + last[1:] in _ABBREVIATIONS)


def _bracketed(closing: str) -> bool:
    return any(bracket in closing for bracket in _BRACKETS)

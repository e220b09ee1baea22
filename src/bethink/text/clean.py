"""Turns raw text into clean words; the result does not depend on how the text is cut into chunks.

All cleaning is local to one whitespace-delimited word, so it waits for nothing but the end of that word: Unicode NFC, control
and invisible characters removed, entities (`&amp;`) unescaped, tags (`<b>`, `<br/>`) removed. The one exception is a tag with
attributes (`<font color="red">`): a word that ends in `<name` waits while the following words continue a tag. A lone `<` or `&`
is text. A run of more than LONGEST_WORD characters without white space is cut and, where sentences are asked for, a run in a
script without spaces also after each sentence.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator

from bethink.text.sentences import unspaced_end

LONGEST_WORD = 256  # characters

LINE_END = "\n"  # what Cleaner yields at the end of a line; no word equals it, because words have no white space

_CHUNKS = re.compile(rf"\S{{1,{LONGEST_WORD}}}|\s+")
_LINE_ENDS = re.compile("[\n\r\v\f\x85\u2028\u2029]")

_ATTRIBUTE = r"""\s+[A-Za-z][\w:.-]*=(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>]+)"""
_TAG = re.compile(rf"</?([A-Za-z][A-Za-z0-9]*)(?:{_ATTRIBUTE})*\s*/?>")
_OPEN_TAG = re.compile(
    rf"""[^\s<]*<[A-Za-z][A-Za-z0-9]*(?:{_ATTRIBUTE})*(?:\s+[A-Za-z][\w:.-]*=(?:"[^"<>]*|'[^'<>]*)?)?"""
)
_SPACING_TAGS = frozenset({"br", "div", "hr", "li", "p", "td", "th", "tr"})

_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_PUNCTUATION = re.compile(r"[^\w\s'’-]+|(?<!\w)[-'’]+|[-'’]+(?!\w)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
    # Joiners carry meaning inside emoji and in scripts such as Persian, and none beside Latin letters.
    "|(?<![^\x00-\u02ff\\s])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\u02ff\\s])"
)


def normalise(text: str) -> str:
    """The text as bethink reads it: clean words with one space between them, on one line."""
    if _is_clean(text):
        return " ".join(text.split())
    cleaner = Cleaner()
    words = [*cleaner.feed(text), *cleaner.finish()]
    return " ".join(word for word in words if word != LINE_END)


def without_punctuation(line: str) -> str:
    """The words of a line without punctuation; hyphens and apostrophes inside a word stay."""
    return " ".join(_PUNCTUATION.sub(" ", line).split())


def _is_clean(text: str) -> bool:
    """Whether the Cleaner would change nothing. True for nearly all of a corpus, and ten times as fast as cleaning."""
    return (
        text.isprintable()  # no control or format characters; the only white space is the plain space
        and "<" not in text
        and "&" not in text
        and unicodedata.is_normalized("NFC", text)
        and max(map(len, text.split()), default=0) <= LONGEST_WORD
    )


class Cleaner:
    """Takes raw text in any chunks; yields each clean word once it is complete, and LINE_END at each line end."""

    def __init__(self, *, sentences: bool = False) -> None:
        """`sentences`: end a word where a sentence ends and the next follows without white space."""
        self._sentences = sentences
        self._raw = ""  # the word that is not complete yet
        self._tag = ""  # words that may be the beginning of a tag with attributes

    @property
    def settled(self) -> bool:
        """Whether all text fed so far has been yielded."""
        return not (self._raw or self._tag)

    def feed(self, text: str) -> Iterator[str]:
        for chunk in _CHUNKS.findall(text):
            if not chunk.isspace():
                yield from self._grow(chunk)
                continue
            yield from self._complete()
            if _LINE_ENDS.search(chunk):
                yield from self._release()
                yield LINE_END

    def finish(self) -> Iterator[str]:
        yield from self._complete()
        yield from self._release()

    def _grow(self, chunk: str) -> Iterator[str]:
        rest = self._raw + chunk
        while (end := self._end_of_word(rest)) is not None:
            self._raw, rest = rest[:end], rest[end:]
            yield from self._complete()
        self._raw = rest

    def _end_of_word(self, raw: str) -> int | None:
        """Where a word ends within this text without white space."""
        end = unspaced_end(raw[: LONGEST_WORD + 1]) if self._sentences else None
        return LONGEST_WORD if end is None and len(raw) > LONGEST_WORD else end

    def _complete(self) -> Iterator[str]:
        if not self._raw:
            return
        raw, self._raw = self._raw, ""
        if not self._tag and "<" not in raw:
            yield from _clean(raw)
            return
        joined = f"{self._tag} {raw}" if self._tag else raw
        text = _TAG.sub("", joined)
        if len(joined) <= LONGEST_WORD and _OPEN_TAG.fullmatch(text):
            self._tag = joined
        elif len(text.split()) <= 1:
            self._tag = ""
            yield from _clean(joined)
        else:
            yield from self._release()
            self._raw = raw
            yield from self._complete()

    def _release(self) -> Iterator[str]:
        held, self._tag = self._tag, ""
        for raw in held.split():
            yield from _clean(raw)


def _clean(word: str) -> list[str]:
    """The clean words of a raw word: usually one; none if nothing is left; more if it had a `<br/>` or `&nbsp;`."""
    if _SURROGATE.search(word):  # join halves of surrogate pairs; a half without its partner becomes U+FFFD
        word = word.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if "<" in word:
        word = _TAG.sub(lambda match: " " if match[1].lower() in _SPACING_TAGS else "", word)
    if "&" in word:
        word = _ENTITY.sub(lambda match: html.unescape(match[0]), word)
    if not word.isascii() or not word.isprintable():
        word = unicodedata.normalize("NFC", _INVISIBLE.sub("", word))
    return word.split()

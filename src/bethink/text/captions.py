"""Captions: words with their times become short cues of a few lines, and cues become WebVTT or SubRip (SRT).

`Captions` works while the words arrive. A cue is given out when nothing can change it any more, so what it gives out live is what
it gives for the whole text at the end.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from bethink.errors import UsageError


@dataclass(frozen=True)
class Layout:
    """How captions look. The defaults are what broadcasters use."""

    width: int = 42  # characters in a line
    lines: int = 2  # in a cue
    longest: int = 6000  # milliseconds from the first word of a cue to its last
    shortest: int = 1000  # milliseconds that a cue stays at least; also after its last word, unless another follows
    speed: int = 15  # characters that people read in a second

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise UsageError(f"the caption setting '{name}' is {value}, but must be at least 1")

    def fits(self, text: str) -> bool:
        return len(text) <= self.width * self.lines and len(self.wrap(text, self.width)) <= self.lines

    def wrap(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)

    def broken(self, text: str) -> str:
        """The text in as few lines as possible, which are about equally long."""
        fewest = len(self.wrap(text, self.width))
        narrow = next(w for w in range(1, self.width + 1) if len(self.wrap(text, w)) <= fewest)
        return "\n".join(self.wrap(text, narrow))


@dataclass(frozen=True)
class Cue:
    """A caption, from when to when it is shown in milliseconds, and its lines."""

    start: int
    end: int
    text: str
    doubts: tuple[tuple[int, int], ...] = ()  # where words begin and end that were written early and may be wrong


class Captions:
    """Words in, cues out. A cue never reaches over the end of a sentence, and ends when the next one begins.

    Where words come faster than cues can be shown, cues are shown later than their words came.
    """

    def __init__(self, layout: Layout | None = None) -> None:
        self.layout = layout or Layout()
        self._text = ""  # of the last cue, which may still grow or be cut short by the next one
        self._first = self._last = 0  # when its first and its last word came
        self._closed = False  # no more words go into it
        self._over = 0  # when the cue before it ended
        self._doubts: list[tuple[int, int]] = []  # places in its text

    def add(self, at: int, text: str, *, doubt: bool = False) -> list[Cue]:
        """A word that was shown at `at`, with the space before it. `doubt`: to be marked. Returns finished cues."""
        grown = " ".join((self._text + text).split())
        full = self._closed or at - self._first > self.layout.longest or not (joins(text) or self.layout.fits(grown))
        done: list[Cue] = []
        if self._text and full:
            done = [self._cue(max(min(self._ending, at), self._first + self.layout.shortest))]
            grown = " ".join(text.split())
        if not self._text or done:
            self._first = max(at, self._over)
        if doubt:
            begin = 0 if done else len(self._text)  # what stands in the cue stays as it is
            begin += len(grown[begin:]) - len(grown[begin:].lstrip(" ,.;:!?…)]”’»"))
            self._doubts += [(begin, len(grown))] if begin < len(grown) else []
        self._text, self._last, self._closed = grown, max(at, self._first), False
        return done

    def end(self) -> list[Cue]:
        """The sentence has ended. Its last cue is finished later: how long it stays depends on what follows."""
        self._closed = bool(self._text)
        return []

    def wait(self, now: int) -> list[Cue]:
        """The last cue, if it is over by now."""
        if not self._text or now < self._ending or not (self._closed or now - self._first > self.layout.longest):
            return []
        return self.finish()

    def finish(self) -> list[Cue]:
        """The last cue: no more words come."""
        done = [self._cue(self._ending)] if self._text else []
        self._text, self._closed = "", False
        return done

    @property
    def _ending(self) -> int:
        """When the last cue may go if nothing follows it: it has been read by then."""
        return max(self._last + self.layout.shortest, self._first + 1000 * len(self._text) // self.layout.speed)

    def _cue(self, end: int) -> Cue:
        self._over = end
        doubts, self._doubts = tuple(self._doubts), []
        return Cue(self._first, end, self.layout.broken(self._text), doubts)  # a line end takes the place of a space


class Lines:
    """Words in, single lines out, for services that show text as it comes: as soon as a line is full or its sentence ends.

    A line also goes out `hold` milliseconds after its first word, so that nobody waits for the end of a pause.
    """

    def __init__(self, width: int = 42, hold: int = 2000) -> None:
        self._layout, self._hold = Layout(width=width, lines=1), hold
        self._text, self._first = "", 0

    def add(self, at: int, text: str) -> list[str]:
        grown = " ".join((self._text + text).split())
        done = []
        if self._text and not (joins(text) or self._layout.fits(grown)):
            done, grown = self.finish(), " ".join(text.split())
        if not self._text:
            self._first = at
        self._text = grown
        return done

    def end(self) -> list[str]:
        """The sentence has ended."""
        return self.finish()

    def wait(self, now: int) -> list[str]:
        """The open line, if it has waited long enough."""
        return self.finish() if now - self._first >= self._hold else []

    def finish(self) -> list[str]:
        done, self._text = [self._text] if self._text else [], ""
        return done


def pieces(text: str) -> list[str]:
    """A longer text as words, each with the space before it, so that it can be spread over cues and lines."""
    return re.findall(r"\s*\S+", text)


def joins(text: str) -> bool:
    """Whether the text stays with the word before it, as punctuation does."""
    return not text[:1].isspace() and not text[:1].isalnum()


def cues(words: Iterable[tuple[int, str, bool, bool]]) -> list[Cue]:
    """The cues of a whole text: when each word came, the word, whether it ends its sentence, and whether it is to be marked."""
    captions, made = Captions(), list[Cue]()
    for at, text, end, doubt in words:
        made += captions.add(at, text, doubt=doubt)
        made += captions.end() if end else []
    return made + captions.finish()


class WebVTT:
    """The format of web pages. Doubtful words have a class, which shows nothing unless the page styles it: `::cue(.doubt)`."""

    suffix, media_type, head = ".vtt", "text/vtt", "WEBVTT\n\n"

    @staticmethod
    def cue(cue: Cue, number: int) -> str:  # noqa: ARG004 - WebVTT needs no numbers
        made, done = f"{clock(cue.start, '.')} --> {clock(cue.end, '.')}\n", 0
        for begin, end in cue.doubts:
            made += html.escape(cue.text[done:begin], quote=False)
            made += f"<c.doubt>{html.escape(cue.text[begin:end], quote=False)}</c>"
            done = end
        return f"{made}{html.escape(cue.text[done:], quote=False)}\n\n"


class SubRip:
    """The format of video players and editors. It has no styles, so nothing is marked."""

    suffix, media_type, head = ".srt", "application/x-subrip", ""

    @staticmethod
    def cue(cue: Cue, number: int) -> str:
        return f"{number}\n{clock(cue.start, ',')} --> {clock(cue.end, ',')}\n{cue.text}\n\n"


FORMATS = {kind.suffix: kind for kind in (WebVTT, SubRip)}


def written(made: Iterable[Cue], kind: type[WebVTT | SubRip]) -> str:
    return kind.head + "".join(kind.cue(cue, number) for number, cue in enumerate(made, start=1))


def clock(milliseconds: int, point: str) -> str:
    """A time as 01:02:03.456."""
    seconds, rest = divmod(max(0, milliseconds), 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{rest:03}"

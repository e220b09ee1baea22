"""What speech recognisers print, read into one form: the words that will not change any more, and the newest guess at the rest.

Each class reads the records of one recogniser, in their order. A record is a JSON object, or, for whisper.cpp, which prints
text, a line with its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

from bethink.errors import DataError, unknown

LONGEST_RECORD = 1 << 20  # characters; WhisperLiveKit repeats the whole talk in each record

Record: TypeAlias = Mapping[str, Any] | str


class Spoken(NamedTuple):
    """A word, and when it was spoken, in seconds of the audio, if the recogniser says so."""

    text: str
    start: float | None = None
    end: float | None = None


@dataclass(frozen=True)
class Hypothesis:
    """What a recogniser believes was spoken since the words that it fixed before."""

    fixed: tuple[Spoken, ...] = ()  # will not change any more
    open: tuple[Spoken, ...] = ()  # follow them, and may change
    paused: bool = False  # whether the speaker paused after them


class Recogniser(Protocol):
    KEYS: ClassVar[tuple[str, ...]]  # one of which each record has

    def read(self, record: Record) -> Hypothesis | None:
        """What a record says, or None if it says nothing about words."""


class Vosk:
    """`{"partial": …}` while somebody speaks, `{"text": …}` after a pause; with word times if they were switched on."""

    KEYS: ClassVar[tuple[str, ...]] = ("partial", "text", "alternatives")

    def read(self, record: Record) -> Hypothesis | None:
        found = _object(record, self.KEYS)
        if "partial" in found:
            return Hypothesis(open=_timed(found, "partial", "partial_result"))
        if "alternatives" in found:
            found = next(iter(_list(found, "alternatives")), {"text": ""})
        return Hypothesis(fixed=_timed(found, "text", "result"), paused=True)


class Browser:
    """The events of the Web Speech API as JSON: `resultIndex` and all `results` of the session, each with `isFinal` and
    `transcript` (or its alternatives under "0", "1", …). Also `{"transcript": …, "isFinal": …}`, one result at a time."""

    KEYS: ClassVar[tuple[str, ...]] = ("results", "transcript")

    def __init__(self) -> None:
        self._done = 0  # final results that were read already

    def read(self, record: Record) -> Hypothesis | None:
        found = _object(record, self.KEYS)
        if "results" not in found:
            words = _words(_text(found, "transcript"))
            return Hypothesis(fixed=words, paused=True) if found.get("isFinal") else Hypothesis(open=words)
        results = _list(found, "results")
        changed = found.get("resultIndex")
        if isinstance(changed, int) and changed < self._done:  # a final result never changes: the browser began anew
            self._done = 0
        finals = next((n for n, each in enumerate(results) if not each.get("isFinal")), len(results))
        fixed, rest = results[self._done : finals], results[max(self._done, finals) :]
        self._done = max(self._done, finals)
        return Hypothesis(_transcripts(fixed), _transcripts(rest), paused=bool(fixed) and not rest)


class WhisperLiveKit:
    """Messages of its `/asr` socket, in full or in diff mode: committed `lines`, and buffers that are overwritten."""

    KEYS: ClassVar[tuple[str, ...]] = ("lines", "new_lines", "buffer_transcription", "type")

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._done = 0  # committed words of these lines that were read already

    def read(self, record: Record) -> Hypothesis | None:
        found = _object(record, self.KEYS)
        if "buffer_transcription" not in found and "lines" not in found:  # the server's settings, or its goodbye
            return None
        if found.get("type") == "diff":
            self._apply(found)
        else:
            self._lines = _line_texts(found, "lines")
        words = _words(" ".join(self._lines))
        fixed = words[self._done :]
        self._done = max(self._done, len(words))
        buffers = " ".join(_text(found, name) for name in ("buffer_diarization", "buffer_transcription"))
        return Hypothesis(fixed, _words(buffers))

    def _apply(self, diff: Mapping[str, Any]) -> None:
        """Lines go at the front and come at the end; a line that grew comes again, which the count of lines shows."""
        pruned, new = _number(diff, "lines_pruned"), _line_texts(diff, "new_lines")
        self._done = max(0, self._done - len(_words(" ".join(self._lines[:pruned]))))
        del self._lines[:pruned]
        keep = max(0, _number(diff, "n_lines", len(self._lines) + len(new)) - len(new))
        self._lines = self._lines[:keep] + new


class WhisperCpp:
    """The terminal output of whisper.cpp's `whisper-stream`: a line that is cleared and printed again, until a line end keeps
    it; with `--step 0`, blocks of lines with times, where a block may begin with what the one before ended with."""

    KEYS: ClassVar[tuple[str, ...]] = ()
    _CLEAR = "\x1b[2K"
    _BLOCK = re.compile(r"### Transcription \d+ (?:START \| t0 = (\d+) ms|END)")
    _LINE = re.compile(r"\[(\d+):(\d+):(\d+[.,]\d+) --> (\d+):(\d+):(\d+[.,]\d+)\](.*)")
    _NOISE = re.compile(r"\[[^\]]*\]|\([^)]*\)")  # [BLANK_AUDIO], (applause)

    def __init__(self) -> None:
        self._origin = 0.0  # where the block begins in the audio
        self._end = 0.0  # of the last word read

    def read(self, record: Record) -> Hypothesis | None:
        if not isinstance(record, str):
            raise DataError(f"expected the terminal output of whisper-stream, found an object with {_names(record)}")
        text = record.replace(self._CLEAR, "").strip()
        if block := self._BLOCK.match(text):
            self._origin = float(block[1]) / 1000 if block[1] else self._origin
            return None
        if line := self._LINE.match(text):
            return self._timed_line(line)
        words = _words(self._NOISE.sub(" ", text))
        if not words:
            return None
        return Hypothesis(fixed=words) if record.endswith("\n") else Hypothesis(open=words)

    def _timed_line(self, line: re.Match[str]) -> Hypothesis:
        """The words share the line's time evenly; those before the end of the block before are known already."""
        hours = [float(part.replace(",", ".")) for part in line.groups()[:6]]
        start, end = (self._origin + 3600 * h + 60 * m + s for h, m, s in (hours[:3], hours[3:]))
        texts = self._NOISE.sub(" ", line[7]).split()
        each = (end - start) / max(len(texts), 1)
        words = [Spoken(text, start + n * each, start + (n + 1) * each) for n, text in enumerate(texts)]
        new = tuple(word for word in words if start + (words.index(word) + 0.5) * each >= self._end)
        self._end = max(self._end, end)
        return Hypothesis(fixed=new)


RECOGNISERS: dict[str, type[Recogniser]] = {
    "vosk": Vosk,
    "whisper.cpp": WhisperCpp,
    "whisperlivekit": WhisperLiveKit,
    "browser": Browser,
}


def open_recogniser(name: str) -> Recogniser:
    if name not in RECOGNISERS:
        raise unknown("format", name, RECOGNISERS)
    return RECOGNISERS[name]()


def detect(record: Record) -> str:
    """The name of the recogniser that prints such records."""
    if isinstance(record, str):
        return "whisper.cpp"
    for name in ("whisperlivekit", "browser", "vosk"):  # "type" and "text" are common names: the others come first
        if any(key in record for key in RECOGNISERS[name].KEYS if key != "type"):
            return name
    if record.get("type") in ("config", "ready_to_stop"):
        return "whisperlivekit"
    raise DataError(
        f"cannot tell which recogniser this is from, an object with {_names(record)}; name it with --format, one of "
        + ", ".join(RECOGNISERS)
    )


class Records:
    """Cuts the text that arrives from a recogniser into records: JSON objects on one or more lines, and other lines as they are."""

    def __init__(self) -> None:
        self._text = ""  # of a line that is not complete
        self._object: list[str] = []  # lines of an object that is not complete

    def feed(self, text: str) -> Iterator[Record | DataError]:
        *lines, self._text = re.split(r"(?<=[\n\r])", self._text + text)
        if len(self._text) > LONGEST_RECORD:
            raise DataError(f"a record is longer than {LONGEST_RECORD:,} characters; expected one JSON object per line")
        yield from self._records(lines)

    def finish(self) -> Iterator[Record | DataError]:
        rest, self._text = self._text, ""
        yield from self._records([f"{rest}\n"])
        if self._object:
            yield _parse("".join(self._object))

    def _records(self, lines: Iterable[str]) -> Iterator[Record | DataError]:
        for line in lines:
            if self._object or line.strip() == "{":  # an object over several lines, as vosk prints it
                self._object.append(line)
                if line.rstrip() == "}" or sum(map(len, self._object)) > LONGEST_RECORD:
                    whole, self._object = "".join(self._object), []
                    yield _parse(whole)
            elif line.lstrip().startswith("{"):
                yield _parse(line)
            elif line.strip():
                yield line


def _parse(line: str) -> Record | DataError:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        return DataError(f"this is not a JSON object: {line.strip()[:80]!r} ({str(error)[:80]})")
    assert isinstance(found, dict), "it begins with a brace"
    return found


def _object(record: Record, keys: Sequence[str]) -> Mapping[str, Any]:
    if isinstance(record, str):
        raise DataError(f"expected a JSON object on each line, found {record.strip()[:80]!r}")
    if not any(key in record for key in keys):
        raise DataError(f"expected an object with one of {', '.join(map(repr, keys))}, found {_names(record)}")
    return record


def _names(record: Mapping[str, Any]) -> str:
    return ", ".join(repr(key)[:40] for key in list(record)[:6]) or "nothing in it"


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name) or ""
    if not isinstance(value, str):
        raise DataError(f"{name!r} must be text, found {value!r:.80}")
    return value


def _number(record: Mapping[str, Any], name: str, otherwise: int = 0) -> int:
    value = record.get(name, otherwise)
    if not isinstance(value, int) or value < 0:
        raise DataError(f"{name!r} must be a whole number of at least 0, found {value!r:.80}")
    return value


def _list(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = record.get(name) or []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise DataError(f"{name!r} must be a list of objects, found {value!r:.80}")
    return value


def _words(text: str) -> tuple[Spoken, ...]:
    return tuple(Spoken(word) for word in text.split())


def _timed(record: Mapping[str, Any], text: str, words: str) -> tuple[Spoken, ...]:
    """The words with their times if there are any, else the words of the text."""
    found = [
        Spoken(_text(each, "word"), _seconds(each, "start"), _seconds(each, "end")) for each in _list(record, words)
    ]
    return tuple(word for word in found if word.text) or _words(_text(record, text))


def _seconds(record: Mapping[str, Any], name: str) -> float | None:
    value = record.get(name)
    return float(value) if isinstance(value, int | float) else None


def _transcripts(results: Iterable[Mapping[str, Any]]) -> tuple[Spoken, ...]:
    best = (each if "transcript" in each else each.get("0") for each in results)
    return _words(" ".join(_text(each, "transcript") for each in best if isinstance(each, dict)))


def _line_texts(record: Mapping[str, Any], name: str) -> list[str]:
    return [_text(line, "text") for line in _list(record, name)]

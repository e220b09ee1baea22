"""Where captions are watched: each sink takes the words of a room and loses or repeats none.

- `FileSink`: a WebVTT or SRT file that grows.
- `PostSink`: the caption address of a Zoom meeting or a YouTube live stream. Both want one POST per line with a counter `seq` that rises
  by one, and take a second POST with the same number for a repetition of the first.
"""

from __future__ import annotations

import hashlib
import http.client
import itertools
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from bethink.client.patience import Patience
from bethink.client.room import RoomEvent, RoomReader, RoomWord
from bethink.errors import BethinkError, DataError, UsageError
from bethink.files import read_json, write_atomically
from bethink.text.captions import FORMATS, Captions, Cue, Layout, Lines, pieces
from bethink.text.languages import short
from bethink.trace import correction_text, doubtful

BEHIND = 1500  # milliseconds: a word may be this late before the clock is believed
TIMEOUT = 10.0  # seconds for the answer to a POST
ZOOM_LANGUAGES = {"de": "de-DE", "en": "en-US", "ja": "jp-JP", "es": "es-ES", "fr": "fr-FR", "zh": "zh-CN"}


def follow(room: RoomReader, sink: Sink, stop: threading.Event) -> None:
    """Give a room's words to a sink until the speaker ends the text, the room ends, or `stop` is set."""
    room.open()
    sink.begin(room)
    events, seen = room.events(), itertools.count(1)

    def give(words: Iterable[RoomWord]) -> None:
        for word in words:
            if next(seen) > sink.skip:
                sink.word(word)

    while not stop.is_set():
        try:
            event = next(events, RoomEvent(final=True))
        except BethinkError:
            sink.finish()
            raise
        if event is None:
            sink.wait(room.now - BEHIND)
            continue
        give(event.words)
        if event.end:
            sink.end()
        if event.correction:
            at, correction = event.correction
            give(RoomWord(at, text) for text in pieces(correction_text(correction)))
            sink.end()
        if event.final:
            break
    sink.finish()


class FileSink:
    """A file to which every cue is appended when it is finished; at the end it is the same as one made from the whole text.

    With `doubt`, WebVTT marks words that were written early and may be wrong.
    """

    skip = 0  # words of the room that are not for it

    def __init__(self, path: Path, layout: Layout, *, doubt: bool = True) -> None:
        self._kind = FORMATS[path.suffix]
        self._captions = Captions(layout)
        self._path, self._count, self._doubt = path, 0, doubt

    def begin(self, room: RoomReader) -> None:
        self._file = self._path.open("w", encoding="utf-8", newline="\n")
        self._file.write(self._kind.head)
        self._file.flush()

    def word(self, word: RoomWord) -> None:
        self._write(self._captions.add(word.at, word.text, doubt=self._doubt and doubtful(word.stability)))

    def end(self) -> None:
        """The sentence has ended."""
        self._write(self._captions.end())

    def wait(self, now: int) -> None:
        """Nothing came; it is `now`."""
        self._write(self._captions.wait(now))

    def finish(self) -> None:
        self._write(self._captions.finish())
        self._file.close()

    def _write(self, cues: list[Cue]) -> None:
        for cue in cues:
            self._count += 1
            self._file.write(self._kind.cue(cue, self._count))
            self._file.flush()


class PostSink:
    """Zoom or YouTube. What was posted is noted in `state`, if given, before it is posted: a program that is started again goes on
    with the next word, and sends the last line again under its old number in case it had not arrived."""

    def __init__(self, service: str, url: str, lines: Lines, state: Path | None, patience: float = 300.0) -> None:
        self.skip = 0  # words of the room that it had before, or that came before it
        self._service, self._url, self._lines = service, url, lines
        self._state, self._patience = state, patience
        self._seq = 0  # of the last line
        self._words = 0  # of the room that have gone out or were skipped
        self._open: list[int] = []  # the times of the words of the open line
        self._opened = 0.0

    def begin(self, room: RoomReader) -> None:
        self._opened = float(room.about["opened"])
        language = ZOOM_LANGUAGES.get(short(room.language["target"]))
        if self._service == "zoom" and language and "lang=" not in self._url:
            self._url += f"{'&' if '?' in self._url else '?'}lang={language}"
        if self._state is not None and self._state.exists():
            self._restore(self._state)
        else:
            self.skip = self._words = int(room.language["words"])  # nobody wants an hour of captions at once
            self._seq = self._last_seq()

    def word(self, word: RoomWord) -> None:
        self._send(self._lines.add(word.at, word.text))  # the line before this word, if it is full
        self._open.append(word.at)

    def end(self) -> None:
        self._send(self._lines.end())

    def wait(self, now: int) -> None:
        self._send(self._lines.wait(now))

    def finish(self) -> None:
        self._send(self._lines.finish())

    def _send(self, lines: list[str]) -> None:
        for line in lines:
            self._seq += 1
            self._words += len(self._open)
            at, self._open = self._open[0], []
            body = f"{line}\n"
            if self._service == "youtube":
                stamp = datetime.fromtimestamp(self._opened + at / 1000, UTC)
                body = f"{stamp:%Y-%m-%dT%H:%M:%S}.{stamp.microsecond // 1000:03}\n{body}"
            if self._state is not None:
                note = {"seq": self._seq, "words": self._words, "body": body}
                write_atomically(self._state, json.dumps(note).encode())
            self._post(body)

    def _post(self, body: str) -> None:
        """Post until it is taken; the number stays the same, so nothing is doubled."""
        host = urllib.parse.urlsplit(self._url).hostname
        patience = Patience(self._patience, f"{self._service} ({host}) took no captions")
        url = f"{self._url}{'&' if '?' in self._url else '?'}seq={self._seq}"
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        while True:
            try:
                with urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers), timeout=TIMEOUT):
                    return
            except (OSError, http.client.HTTPException) as error:
                told = f"HTTP status {error.code}" if isinstance(error, urllib.error.HTTPError) else repr(error)
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
                time.sleep(patience.after(told, f"{self._service}: {told}"))

    def _last_seq(self) -> int:
        """The number of the last line that the service has; YouTube cannot say it."""
        if self._service != "zoom":
            return 0
        parts = urllib.parse.urlsplit(self._url)
        url = parts._replace(path=f"{parts.path.rstrip('/')}/seq").geturl()
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
                return max(0, int(answer.read(20)))
        except (OSError, ValueError, http.client.HTTPException):
            return 0  # a meeting that has had no captions yet

    def _restore(self, state: Path) -> None:
        note = read_json(state, DataError)
        try:
            self._seq, self.skip, body = int(note["seq"]), int(note["words"]), str(note["body"])
        except (KeyError, TypeError, ValueError):
            raise DataError(f"{state} is damaged: it does not say which captions were sent; delete it") from None
        self._words = self.skip
        self._post(body)


Sink: TypeAlias = FileSink | PostSink


def sink_for(target: str, layout: Layout, state: Path | None, *, doubt: bool = True) -> Sink:
    """The sink that a command line names: zoom:URL, youtube:URL, FILE.vtt or FILE.srt."""
    service, _, url = target.partition(":")
    if service in ("zoom", "youtube"):
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise UsageError(f"{service} needs its caption address, as in {service}:https://…; found {url[:40]!r}")
        if state is not None:
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{service}-{hashlib.sha256(url.encode()).hexdigest()[:12]}.json"
        return PostSink(service, url, Lines(layout.width), state / name if state else None)
    if Path(target).suffix not in FORMATS:
        raise UsageError(f"'{target}' is no place for captions; there are zoom:URL, youtube:URL, FILE.vtt and FILE.srt")
    return FileSink(Path(target), layout, doubt=doubt)

"""`RoomReader`: the words of a room, for programs without asyncio. It comes back by itself and loses or repeats no word."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from bethink.client.patience import Patience
from bethink.errors import BethinkError, UsageError
from bethink.serve.protocol import Message, Refusal

SILENCE = 40.0  # seconds; the server says at least every 15 that it is alive
AHEAD = 1000  # events that may wait to be read
BROKEN = (OSError, http.client.HTTPException, ValueError, KeyError, IndexError, TypeError)


class RoomWord(NamedTuple):
    """Text that was shown at once, with the space before it."""

    at: int  # milliseconds since the room was opened
    text: str
    stability: float | None = None  # how likely it stays right, if it was written before the sentence was complete


@dataclass(frozen=True)
class RoomEvent:
    """Words that follow each other in one sentence."""

    words: tuple[RoomWord, ...] = ()
    end: bool = False  # the sentence ends here
    correction: tuple[int, str] | None = None  # what puts the sentence right, with its time
    final: bool = False  # the speaker has ended the text


class RoomReader:
    """Reads the room that a listeners' link leads to, as in https://live.example.org/listen.html#spring.Zw0…"""

    def __init__(self, link: str, *, model: str = "", patience: float = 300.0) -> None:
        page, _, key = link.partition("#")
        name, _, token = key.partition(".")
        if not token or urllib.parse.urlsplit(page).scheme not in ("http", "https"):
            told = "expected the listeners' link, as in https://live.example.org/listen.html#spring.Zw0x"
            raise UsageError(f"{link!r} is not the link of a room; {told}")
        base = page.partition("?")[0].rpartition("/")[0]
        self._room = f"{base}/v1/rooms/{urllib.parse.quote(name)}"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._model, self._patience = model, patience
        self._last = -1
        self._began = 0.0
        self._events: queue.Queue[RoomEvent | Exception | None] = queue.Queue(AHEAD)
        self._closed = threading.Event()  # nobody reads any more
        self.about: Message = {}

    def open(self) -> None:
        """Ask for the room's languages and its clock; raises if there is no such room."""
        patience = Patience(self._patience, f"{self._room} was out of reach")
        while not self.about:
            try:
                with self._get("") as answer:
                    self.about = json.load(answer)
            except BROKEN as error:
                time.sleep(patience.after(error, f"{self._room}: {error}"))
        models = [language["model"] for language in self.about["languages"]]
        if self._model and self._model not in models:
            raise UsageError(f"this room has no model named {self._model!r}; it has {', '.join(models)}")
        self._began = time.monotonic() - self.about["now"] / 1000

    @property
    def now(self) -> int:
        """Milliseconds since the room was opened."""
        return round(1000 * (time.monotonic() - self._began))

    @property
    def language(self) -> Message:
        """What the room says about the words that are read here: `model`, `source`, `target`, and how many there were."""
        languages: list[Message] = self.about["languages"]
        return next((one for one in languages if one["model"] == self._model), languages[0])

    def events(self, tick: float = 0.25) -> Iterator[RoomEvent | None]:
        """The events of the room from its beginning, and None whenever none came for `tick` seconds. Ends with the room."""
        threading.Thread(target=self._run, name="bethink-room", daemon=True).start()
        try:
            while True:
                try:
                    event = self._events.get(timeout=tick)
                except queue.Empty:
                    yield None
                    continue
                if event is None:
                    return
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            self._closed.set()

    def _run(self) -> None:
        """The background thread: reads, and after a lost connection asks for what follows the last event."""
        patience = Patience(self._patience, f"{self._room} was out of reach")
        try:
            while not self._closed.is_set():
                query = urllib.parse.urlencode({"model": self._model, "after": self._last})
                try:
                    with self._get(f"/events?{query}") as answer:
                        try:
                            self._read(answer)
                        finally:
                            patience.renew()
                    raise OSError("the server ended the connection")
                except BROKEN as error:
                    self._closed.wait(patience.after(error, f"{self._room}: {error}"))
        except BethinkError as error:
            self._give(None if isinstance(error, Refusal) and error.code == "room" else error)

    def _give(self, event: RoomEvent | Exception | None) -> None:
        """Hand an event to the reader; waits while many are unread."""
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                self._events.put(event, timeout=1)
                return

    def _get(self, path: str) -> http.client.HTTPResponse:
        request = urllib.request.Request(self._room + path, headers=self._headers)
        try:
            answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=SILENCE)
        except urllib.error.HTTPError as error:
            with error:
                got: Any = json.loads(error.read())["error"] if error.code < 500 and error.code != 429 else None
            if got is None:
                raise OSError(f"HTTP status {error.code}") from None
            raise Refusal(got["code"], got["message"]) from None
        return answer

    def _read(self, answer: http.client.HTTPResponse) -> None:
        fields: dict[str, str] = {}
        for raw in answer:
            if self._closed.is_set():
                return
            line = raw.decode().rstrip("\n")
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            if fields.get("event") == "final":
                self._give(RoomEvent(final=True))
            elif "id" in fields:
                got = json.loads(fields["data"])
                known = got.get("stability") or [None] * len(got["words"])
                told = zip(got["words"], known, strict=True)
                words = tuple(RoomWord(int(at), str(text), stability) for (at, text), stability in told)
                correction = (int(got["correction"][0]), str(got["correction"][1])) if "correction" in got else None
                self._give(RoomEvent(words, bool(got.get("end")), correction))
                self._last = int(fields["id"])
            fields = {}

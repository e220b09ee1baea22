"""Simulated speakers for `live.py`: talks, and clients that say them word by word and cost as little as a client can."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.uri import parse_uri

import bethink
from bethink import Action, Translator, toy
from bethink.text import languages
from bethink.trace import shown

SAMPLES = Path(bethink.__file__).parent / "serve" / "page" / "samples"
RATE = 150  # words per minute
TALKS = 8  # different ones
REFUSALS = frozenset({"full", "rate", "HTTP 503"})  # what a server says that lets nobody in; any other end is a failure


@dataclass(frozen=True)
class Talk:
    words: tuple[str, ...]
    places: tuple[tuple[int, int], ...]  # of each word: its sentence, and its number in it
    translation: str


@dataclass
class Told:
    """What one speaker's listener got."""

    words: int
    lags: list[float] = field(default_factory=list)  # milliseconds, of each WRITE that showed something
    exact: bool = False
    refused: str = ""
    failed: str = ""

    def end(self, reason: str) -> None:
        """Before the talk was translated; the first reason is the one that counts."""
        if self.refused or self.failed:
            return
        if reason in REFUSALS:
            self.refused = reason
        else:
            self.failed = reason


def sentences(translator: Translator, seed: int, talk: Path | None = None) -> Iterator[str]:
    """Without end, in another order for each seed: of a talk, of the toy language, or of the talks that come with the page."""
    draw = random.Random(seed)
    if translator.about.get("toy") and not talk:
        known = [pair.source for pair in toy.sentences(400, seed=seed)]
    else:
        files = [talk] if talk else _of_the_page(translator.about.get("source", ""))
        known = [one for file in files for one in re.split(r"(?<=[.!?])\s+", file.read_text("utf-8").strip())]
    while True:
        yield from draw.sample(known, len(known))


def _of_the_page(source: str) -> list[Path]:
    language = languages.load(source)
    files = [one for one in sorted(SAMPLES.glob("*.txt")) if language == languages.load(one.name.split("-")[0])]
    if language is None or not files:
        raise SystemExit(
            f"no talk in the model's language, {source or 'which is not known'}, comes with the page: give one with --talk"
        )
    return files


def talks(translator: Translator, policy: str, words: int, talk: Path | None = None) -> list[Talk]:
    made = []
    for seed in range(TALKS):
        spoken: list[str] = []
        for sentence in sentences(translator, 1000 + seed, talk):
            spoken += sentence.split()
            if len(spoken) >= words:
                break
        steps = list(translator.stream([" ".join(spoken)], policy or None))
        places = tuple((step.sentence, step.heard - 1) for step in steps if step.action is Action.READ and step.text)
        made.append(Talk(tuple(spoken), places, shown(steps)))
    return made


async def speaker(url: str, policy: str, talk: Talk, delay: float) -> Told:
    """Says a talk, word by word, and listens."""
    await asyncio.sleep(delay)
    loop, told = asyncio.get_running_loop(), Told(len(talk.words))
    caller = Caller(url, policy, talk, told)
    try:
        await loop.create_connection(lambda: caller, caller.uri.host, caller.uri.port)
        await caller.gone
    except OSError as error:
        told.end(type(error).__name__)
    told.exact = "".join(caller.text) == talk.translation
    return told


class Caller(asyncio.Protocol):
    """One speaker's socket. Only messages that show something are parsed: the others would cost the clients, not the server."""

    def __init__(self, url: str, policy: str, talk: Talk, told: Told) -> None:
        self.uri = parse_uri(url)
        self.text: list[str] = []
        self.loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self.loop.create_future()
        self._socket = ClientProtocol(self.uri)
        self._policy = policy
        self._talk = talk
        self._told = told
        self._spoken: dict[tuple[int, int], float] = {}
        self._next: asyncio.TimerHandle | None = None
        self._final = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._socket.send_request(self._socket.connect())
        self._write()

    def data_received(self, data: bytes) -> None:
        self._socket.receive_data(data)
        now = time.perf_counter()
        for event in self._socket.events_received():
            if isinstance(event, Response):
                self._greet(event)
            elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                self._hear(bytes(event.data), now)
        self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._next is not None:
            self._next.cancel()
        if not self._final:
            self._told.end("lost")
        if not self.gone.done():
            self.gone.set_result(None)

    def _greet(self, response: Response) -> None:
        if self._socket.handshake_exc is None:
            self._send({"type": "start", "version": 2, "policy": self._policy})
        else:
            self._told.end(f"HTTP {response.status_code}")
            self._transport.close()

    def _hear(self, data: bytes, now: float) -> None:
        if data.startswith(b'{"type":"step"'):
            if b'"action":"WRITE"' in data and b'"text":""' not in data:
                message = json.loads(data)
                self.text.append(message["text"])
                self._told.lags.append(1000 * (now - self._spoken[message["sentence"], message["heard"] - 1]))
            return
        message = json.loads(data)
        if message["type"] == "ready":
            self._say(0, self.loop.time())
        elif message["type"] == "final":
            self._final = True
        elif message["type"] == "error":
            self._told.end(message["code"])

    def _say(self, number: int, due: float) -> None:
        """A word, and the next one when it is due, however late this one was."""
        if number == len(self._talk.words):
            self._send({"type": "end"})
        else:
            self._spoken[self._talk.places[number]] = time.perf_counter()
            self._send({"type": "text", "text": f"{self._talk.words[number]} "})
            due += 60 / RATE
            self._next = self.loop.call_at(due, self._say, number + 1, due)
        self._write()

    def _send(self, message: dict[str, object]) -> None:
        self._socket.send_text(json.dumps(message).encode())

    def _write(self) -> None:
        for data in self._socket.data_to_send():
            if data:
                self._transport.write(data)
            else:
                self._transport.close()

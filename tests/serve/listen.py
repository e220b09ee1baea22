"""A listener for tests: follows a room's server-sent events and keeps everything it was told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.parse
import urllib.request
from typing import Any


def call(method: str, url: str, body: Any = None, **headers: str) -> Any:
    """The JSON answer; raises HTTPError for a refusal."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        raw = answer.read()
    return json.loads(raw) if raw[:1] == b"{" else raw


class Listener:
    """Connects until it is told to stop, with the number of the last event, as a browser does."""

    def __init__(self, port: int, key: str, model: str = "", after: int = -1) -> None:
        self.port, self.model, self.after = port, model, after
        self.name, _, self.token = key.partition(".")
        self.events: list[tuple[int, dict[str, Any]]] = []
        self.connections = 0
        self.final = asyncio.Event()

    @property
    def text(self) -> str:
        return "".join(word for _, event in self.events for _, word in event["words"])

    async def run(self) -> None:
        while not self.final.is_set():
            with contextlib.suppress(OSError, EOFError):
                await self._once()
            await asyncio.sleep(0.05)

    async def _once(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        query = urllib.parse.urlencode({"token": self.token, "model": self.model})
        path = f"/v1/rooms/{self.name}/events?{query}"
        last = f"Last-Event-ID: {self.after}\r\n" if self.after >= 0 else ""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n".encode())
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            assert " 200 " in head.splitlines()[0], head
            self.connections += 1
            await self._read(reader)
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        pending = b""
        while not self.final.is_set() and (size := int(await reader.readline() or b"0", 16)):
            pending += (await reader.readexactly(size + 2))[:-2]
            *events, pending = pending.split(b"\n\n")
            for event in events:
                self.take(event.decode())

    def take(self, event: str) -> None:
        fields = dict(line.split(": ", 1) for line in event.splitlines() if ": " in line)
        if fields.get("event") == "final":
            self.final.set()
        elif "id" in fields:
            n = int(fields["id"])
            assert n > self.after, "an event came twice"
            self.after = n
            self.events.append((n, json.loads(fields["data"])))

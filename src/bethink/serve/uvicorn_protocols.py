"""Changes to Uvicorn's protocols: a deadline for HTTP requests; WebSockets that write several frames at once and read with limits."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State

from bethink.serve.auth import RateLimiter
from bethink.serve.protocol import Refusal, dumps

SLICE = 4096  # bytes parsed at once, so that a flood is noticed before all of it is parsed
SMALL = 512  # bytes; a part of a message with fewer counts like an empty frame
FRAMES, FRAMES_AT_ONCE = 20.0, 200  # empty frames, pings and pongs per second and connection, and at once
TOGETHER = 65_536  # bytes written together, at most
REFUSED = "bethink.refused"  # in the state of a connection: the code of the error with which it was closed here
CONTROL = (Opcode.PING, Opcode.PONG)


class DeadlineHTTP(H11Protocol):
    """HTTP with a deadline for the head of every request, counted from the connection or from the answer before.

    The middleware limits the time for the body. A connection that becomes a WebSocket has its own limits.
    """

    deadline = 10.0  # seconds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._timer.cancel()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        self._timer.cancel()
        self._wait()
        super().on_response_complete()

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self.deadline, self._give_up)

    def _give_up(self) -> None:
        """Close the connection, unless a request is being answered."""
        if self.cycle is None or self.cycle.response_complete:  # type: ignore[redundant-expr]
            self.transport.close()


class LimitedWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket that sends the frames of one turn of the event loop together, for example the steps of a word.

    It parses no more input while a message waits for the application or while the client does not read what it was sent. Frames that
    do not reach the application (pings, pongs, empty ones, small parts of messages) are limited in number.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unparsed = bytearray()
        self._frames = RateLimiter(FRAMES, FRAMES_AT_ONCE, addresses=1)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport = BatchingTransport(self.transport, self.loop)  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._unparsed += data
        self._parse()

    def handle_events(self) -> None:
        if all(self._frames.allows("") for event in self.conn.events if _is_cheap(event)):
            super().handle_events()
        else:
            self._refuse(Refusal("rate", "too many pings or empty frames on this connection"))

    def pause_writing(self) -> None:
        super().pause_writing()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._parse()

    async def receive(self) -> Any:
        message = await super().receive()
        self._parse()
        return message

    async def send(self, message: Any) -> None:
        # to the application, a closed socket is a client that left
        if self.close_sent and self.initial_response is None:
            raise ClientDisconnected
        await super().send(message)

    def _parse(self) -> None:
        """Parse what has arrived, until a message waits or the client has too much to read."""
        while self._unparsed and not self._is_held():
            data = bytes(self._unparsed[:SLICE])
            del self._unparsed[:SLICE]
            super().data_received(data)
        if self.transport.is_closing():
            self._unparsed.clear()
        elif self._is_held():
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def _is_held(self) -> bool:
        return self.read_paused or not self.writable.is_set() or self.transport.is_closing()

    def _refuse(self, refusal: Refusal) -> None:
        """Close without asking the application, which is told that the client left."""
        self.scope["state"][REFUSED] = refusal.code
        if self.conn.state is State.OPEN:
            self.conn.send_text(dumps(refusal.to_message()).encode())
            self.conn.fail(refusal.close, refusal.code)
            self.handle_parser_exception()
        else:
            self.transport.abort()


def _is_cheap(event: object) -> bool:
    """Whether this is a frame that the application never sees and that cost the client next to nothing."""
    if not isinstance(event, Frame) or event.opcode is Opcode.CLOSE:
        return False
    return event.opcode in CONTROL or not event.data or (not event.fin and len(event.data) < SMALL)


class BatchingTransport:
    """A transport that writes once, at the end of the event loop's turn, because every system call costs time."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting = bytearray()

    def write(self, data: bytes) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting += data
        if len(self._waiting) > TOGETHER:  # the transport must notice that its client does not read
            self._flush()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._waiting:
            data, self._waiting = bytes(self._waiting), bytearray()
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

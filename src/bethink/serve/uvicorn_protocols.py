"""Two changes to Uvicorn's protocols: a deadline for HTTP requests, and one write for several WebSocket frames."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


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


class BatchingWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket that sends the frames of one turn of the event loop together, for example the steps of a word."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport = BatchingTransport(self.transport, self.loop)  # type: ignore[assignment]


class BatchingTransport:
    """A transport that writes once, at the end of the event loop's turn, because every system call costs time."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._waiting:
            data, self._waiting = b"".join(self._waiting), []
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

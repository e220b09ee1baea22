"""Uvicorn's two protocols, each with one more habit: HTTP that does not wait for ever, sockets that write once where they can."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class Impatient(H11Protocol):
    """HTTP, but the head of every request must be there in time, from the connection or the answer before it on.

    Its body is the guard's to wait for; a socket that is upgraded has its own rules.
    """

    patience = 10.0  # seconds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._deadline.cancel()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        self._deadline.cancel()
        self._wait()
        super().on_response_complete()

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(self.patience, self._give_up)

    def _give_up(self) -> None:
        """Unless a request is being answered."""
        if self.cycle is None or self.cycle.response_complete:  # type: ignore[redundant-expr]
            self.transport.close()


class Gathering(WebSocketsSansIOProtocol):
    """A WebSocket whose frames of one turn of the event loop, a word's steps for example, go out together."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport = Gathered(self.transport, self.loop)  # type: ignore[assignment]


class Gathered:
    """A transport that waits for the end of the turn before it writes; handing over to the system is what costs."""

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

"""Keeps a client connected: one socket after the other, each going on where the one before it broke."""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bethink.client.exchange import Exchange
from bethink.errors import BethinkError, MissingExtra
from bethink.serve.protocol import HOPELESS, PATH, LiveStep, Mark, Message, Refusal, dumps

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

FIRST_WAIT, LONGEST_WAIT = 0.5, 10.0  # seconds between attempts


class ConnectionLost(BethinkError):
    """The server could not be reached for longer than the client has patience."""


class Connection:
    """`start` is the first message; `run` carries what is exchanged until all is said or there is no hope."""

    def __init__(
        self, url: str, start: Message, exchange: Exchange, patience: float, on_state: Callable[[str], None]
    ) -> None:
        self.ready: Message = {}  # what the server said to `start`, last time
        self.final: Message = {}  # what it said at the end
        self.reconnects = 0
        self.socket: ClientConnection | None = None  # of the moment
        self._url = url.rstrip("/") + ("" if url.rstrip("/").endswith(PATH) else PATH)
        self._start = start
        self._exchange = exchange
        self._patience = patience
        self._on_state = on_state
        self._spoke = -math.inf  # when something was sent last

    async def run(self, connected: asyncio.Future[None]) -> None:
        """`connected` learns how the first attempt went; nobody is left waiting, however it ends."""
        outcome: Exception | None = None
        try:
            await self._keep_connected(connected)
        except asyncio.CancelledError:
            outcome = BethinkError("this Client was closed before its text was complete")
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to those who wait
            outcome = error
            if not connected.done():
                connected.set_exception(error)
                return
        finally:
            self._exchange.close(outcome)
        self._on_state("ended")

    async def _keep_connected(self, connected: asyncio.Future[None]) -> None:
        from_now, wait = time.monotonic(), FIRST_WAIT
        while not self.final:
            before = self.ready
            trouble = await self._attempt(connected)
            if self.final:
                return
            if not connected.done():
                raise trouble
            if self.ready is not before:
                self._on_state("lost")
                if isinstance(trouble, Refusal) and trouble.code == "idle" and not self._crossed():
                    await self._exchange.more()  # no reason to come back before there is something to say
                from_now, wait = time.monotonic(), FIRST_WAIT
            if time.monotonic() - from_now > self._patience:
                raise ConnectionLost(f"{self._url} was out of reach for {self._patience:g} seconds: {trouble}")
            await asyncio.sleep(wait * random.uniform(0.75, 1.25))
            wait = min(2 * wait, LONGEST_WAIT)

    def _crossed(self) -> bool:
        """Whether what was sent last crossed with the server's hanging up: the silence it complains of began before that."""
        return time.monotonic() - self._spoke < float(self.ready["limits"].get("idle", 0)) / 2

    async def _attempt(self, connected: asyncio.Future[None]) -> BethinkError:
        """One connection, from start to end; why it ended, unless that means that another is no use."""
        sockets = _websockets()
        try:
            async with sockets.asyncio.client.connect(self._url, compression=None, max_size=None) as socket:
                await self._converse(socket, connected)
        except sockets.exceptions.ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else 1006
            if code in HOPELESS:
                raise Refusal("closed", f"the server closed the connection with code {code}") from None
            return ConnectionLost(f"the connection broke with code {code}")
        except Refusal as refusal:
            if refusal.close in HOPELESS:
                raise
            return refusal
        except (OSError, TimeoutError, sockets.exceptions.WebSocketException) as error:
            return ConnectionLost(f"cannot reach {self._url}: {error or 'no answer in time'}")
        except (KeyError, TypeError, ValueError) as error:
            raise Refusal(
                "invalid", f"{self._url} does not speak the live protocol, by its answer: {error!r}"
            ) from error
        return ConnectionLost("the server ended the stream early")

    async def _converse(self, socket: ClientConnection, connected: asyncio.Future[None]) -> None:
        largest = await self._greet(socket)
        self._on_state("connected")
        if not connected.done():
            connected.set_result(None)
        speaking = asyncio.create_task(self._speak(socket, largest))
        try:
            await self._listen(socket)
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)

    async def _greet(self, socket: ClientConnection) -> int:
        """Begin, or begin again; how many characters a message may have."""
        await socket.send(dumps({**self._start, **self._exchange.memory.resume()}))
        message = json.loads(await socket.recv())
        if message["type"] == "error":
            raise Refusal(message["code"], message["message"])
        self.reconnects += bool(self.ready)
        self.ready = message
        self.socket = socket
        self._exchange.memory.settle(Mark.of(message["resume"]))
        return max(1, int(message["limits"]["message"]) // 16)

    async def _speak(self, socket: ClientConnection, largest: int) -> None:
        while True:
            for message in self._exchange.unsent(largest):
                await socket.send(dumps(message))
                self._spoke = time.monotonic()
            if self._exchange.memory.ended:
                return
            await self._exchange.more()

    async def _listen(self, socket: ClientConnection) -> None:
        async for frame in socket:
            message = json.loads(frame)
            kind = message["type"]
            if kind == "step":
                step = LiveStep.of(message)
                self._exchange.memory.see(step)
                await self._exchange.give(step)
            elif kind == "sentence":
                self._exchange.memory.settle(Mark.of(message["resume"]))
            elif kind == "final":
                self.final = message
            elif kind == "error":
                refusal = Refusal(message["code"], message["message"], fatal=message["fatal"])
                if refusal.fatal:
                    raise refusal
                await self._exchange.give(refusal)


def _websockets() -> Any:
    try:
        import websockets.asyncio.client
        import websockets.exceptions
    except ModuleNotFoundError as error:
        raise MissingExtra("the client", "serve") from error
    return websockets

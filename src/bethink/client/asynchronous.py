"""`Client`, the client for asyncio."""

from __future__ import annotations

import asyncio
import json
import math
import time
import urllib.parse
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from bethink.client.patience import ConnectionLost, Patience
from bethink.client.resume import ReplayBuffer
from bethink.errors import BethinkError, needs_extra
from bethink.serve.protocol import NO_RETRY, PATH, ROOM_PATH, VERSION, Message, Refusal, dumps
from bethink.trace import Step

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

AHEAD = 262_144  # UTF-16 units of text that may wait to be sent
BEHIND = 256  # steps that may wait to be read


class Client:
    """One text: `feed` it, `change` the policy, `finish`; iterate over the steps, in another task if text takes time to arrive.

    A background task keeps the client connected. After a lost connection it opens another socket and continues where it was.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str = "",
        policy: str = "",
        token: str = "",
        room: str = "",
        glossary: Mapping[str, str] | None = None,
        patience: float = 300.0,
        on_state: Callable[[str], None] | None = None,
        on_tail: Callable[[str], None] | None = None,
    ) -> None:
        """`room`: the speaker's key of a room, whose listeners see the translation too. `glossary`: terms and how to write them.
        `patience`: seconds to keep trying, at the start and after a lost connection. `on_state` gets `connected`, `lost`, `ended`.
        `on_tail` gets what the model would write next, after the text of all steps so far, whenever that changes; text that comes in
        a step takes it away."""
        self.ready: Message = {}  # the server's last answer to `start`
        self.final: Message = {}  # the last message of a complete text
        self.reconnects = 0
        self.socket: ClientConnection | None = None  # the current connection
        path = ROOM_PATH.format(name=urllib.parse.quote(room.partition(".")[0], safe="")) if room else PATH
        scheme, colon, rest = url.partition("://")
        # a server prints the address of its page
        address = {"http": "ws", "https": "wss"}.get(scheme, scheme) + colon + rest
        self._url = address.rstrip("/").removesuffix(PATH) + path
        self._start = {
            "type": "start",
            "version": VERSION,
            "model": model,
            "policy": policy,
            "token": token,
            "room": room,
            "glossary": None if glossary is None else dict(glossary),
            "tail": on_tail is not None,
        }
        self._patience = patience
        self._on_state = on_state or (lambda _: None)
        self._on_tail = on_tail or (lambda _: None)
        self._buffer = ReplayBuffer()
        self._steps: deque[Step | Exception] = deque()
        self._news = asyncio.Event()  # set at every change that somebody may wait for
        self._last_sent = -math.inf  # when the last message was sent
        self._outcome: Exception | None = None  # the error that ended the text, if any
        self._closed = False  # the background task has ended
        self._work: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._work = asyncio.create_task(self._run())
        try:
            await self._until(lambda: self._closed or bool(self.ready))
            if not self.ready and self._outcome is not None:
                raise self._outcome
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])

    # the text

    async def feed(self, text: str) -> None:
        """Append text, cut anywhere; waits while much text is unsent. Raises the error that ended the stream, if any."""
        await self._until(lambda: self._closed or self._buffer.unsent <= AHEAD)
        self._require_open()
        self._buffer.feed(text)
        self._news.set()

    async def change(self, policy: str) -> None:
        """Use another policy from the next sentence on. If the server refuses it, the iteration raises `Refusal`."""
        self._require_open()
        self._buffer.change(policy)
        self._news.set()

    async def finish(self) -> None:
        """End the text; the iteration ends with its last step."""
        self._buffer.ended = True
        self._news.set()

    async def feed_all(self, chunks: AsyncIterable[str] | Iterable[str]) -> None:
        """Feed all chunks and finish. If the chunks raise an error, the reader gets it."""
        try:
            if isinstance(chunks, AsyncIterable):
                async for chunk in chunks:
                    await self.feed(chunk)
            else:
                for chunk in chunks:
                    await self.feed(chunk)
            await self.finish()
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) and task.cancelling():  # cancelled from outside: nobody reads any more
                raise
            await self._give(BethinkError("the chunks were cancelled before the text was complete"))
        except Exception as error:  # noqa: BLE001 - the caller's own iterable may raise anything
            await self._give(error)

    # the steps

    async def stream(self, chunks: AsyncIterable[str] | Iterable[str]) -> AsyncIterator[Step]:
        """Feed all chunks and finish; yields the steps meanwhile."""
        feeding = asyncio.create_task(self.feed_all(chunks))
        try:
            async for step in self:
                yield step
            await feeding
        finally:
            feeding.cancel()
            await asyncio.wait([feeding])

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Step:
        await self._until(lambda: self._closed or bool(self._steps))
        if not self._steps:
            if self._outcome is not None:
                raise self._outcome
            raise StopAsyncIteration
        step = self._steps.popleft()
        self._news.set()
        if isinstance(step, Exception):
            raise step
        return step

    async def _give(self, step: Step | Exception) -> None:
        """Hand a step or an error to the reader; waits while the reader is far behind."""
        await self._until(lambda: len(self._steps) < BEHIND)
        self._steps.append(step)
        self._news.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._news.clear()
            await self._news.wait()

    def _require_open(self) -> None:
        if self._outcome is not None:
            raise self._outcome
        if self._buffer.ended or self._closed:
            raise BethinkError("this text has ended; open another Client for another text")

    # the connection

    async def _run(self) -> None:
        """The background task; every waiting call ends when this ends."""
        try:
            await self._keep_connected()
        except asyncio.CancelledError:
            self._outcome = BethinkError("this Client was closed before its text was complete")
            raise
        except Exception as error:  # noqa: BLE001 - raised again for those who wait
            self._outcome = error
        finally:
            self._closed = True
            self._news.set()
        if self.ready:
            self._on_state("ended")

    async def _keep_connected(self) -> None:
        patience = Patience(self._patience, f"{self._url} was out of reach")
        while True:
            before = self.ready
            trouble = await self._attempt()
            if self.final:
                return
            if self.ready is not before:
                self._on_state("lost")
                # a message sent just before may have crossed with the server's `idle` error
                crossed = time.monotonic() - self._last_sent < float(self.ready["limits"].get("idle", 0)) / 2
                if isinstance(trouble, Refusal) and trouble.code == "idle" and not crossed:
                    await self._until(lambda: self._buffer.has_news)  # reconnect only when there is something to send
                patience.renew()
            await asyncio.sleep(patience.after(trouble, "" if self.ready else str(trouble)))

    async def _attempt(self) -> BethinkError:
        """One connection, from start to end. Returns why it ended; raises it if trying again cannot help."""
        sockets = _websockets()
        try:
            async with sockets.asyncio.client.connect(self._url, compression=None, max_size=None) as socket:
                await self._converse(socket)
        except sockets.exceptions.ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else 1006
            if code in NO_RETRY:
                raise Refusal("closed", f"the server closed the connection with code {code}") from None
            return ConnectionLost(f"the connection broke with code {code}")
        except Refusal as refusal:
            if refusal.close in NO_RETRY:
                raise
            return refusal
        except (OSError, TimeoutError, sockets.exceptions.WebSocketException) as error:
            lost = ConnectionLost(f"cannot reach {self._url}: {error or 'no answer in time'}")
            status = getattr(getattr(error, "response", None), "status_code", 500)
            if status < 500 or isinstance(error, sockets.exceptions.InvalidURI):
                raise lost from None
            return lost
        except (KeyError, TypeError, ValueError) as error:
            told = f"the answer of {self._url} does not follow the live protocol: {error!r}"
            raise Refusal("invalid", told) from error
        return ConnectionLost("the server ended the stream early")

    async def _converse(self, socket: ClientConnection) -> None:
        await socket.send(dumps(self._start | self._buffer.resume()))
        ready = json.loads(await socket.recv())
        if ready["type"] == "error":
            raise Refusal(ready["code"], ready["message"])
        largest = max(1, int(ready["limits"]["message"]) // 16)  # characters of text in one message
        self._buffer.settle(ready["resume"])
        self.reconnects += bool(self.ready)
        self.ready, self.socket = ready, socket
        self._on_state("connected")
        self._news.set()  # there is a connection
        sending = asyncio.create_task(self._send(socket, largest))
        try:
            await self._receive(socket)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send(self, socket: ClientConnection, largest: int) -> None:
        while True:
            for message in self._buffer.messages(largest):
                await socket.send(dumps(message))
                self._last_sent = time.monotonic()
                self._news.set()  # there is room for more text
            if self._buffer.ended:
                return
            await self._until(lambda: self._buffer.has_news)

    async def _receive(self, socket: ClientConnection) -> None:
        async for frame in socket:
            message = json.loads(frame)
            kind = message["type"]
            if kind == "step":
                step = Step.from_dict(message)
                self._buffer.see(message)
                await self._give(step)
            elif kind == "tail":
                self._on_tail(str(message["text"]))
            elif kind == "sentence":
                self._buffer.settle(message["resume"])
            elif kind == "final":
                self.final = message
            elif kind == "error":
                refusal = Refusal(message["code"], message["message"], fatal=message["fatal"])
                if refusal.fatal:
                    raise refusal
                await self._give(refusal)


def _websockets() -> Any:
    with needs_extra("the client", "serve"):
        import websockets.asyncio.client
        import websockets.exceptions
    return websockets

"""A client for `bethink serve` that does not mind losing its connection: it comes back and goes on without gap or change.

    async with Client("ws://127.0.0.1:8080") as client:
        async for step in client.stream(["te riki na", "koru ."]):
            if step.action is Action.WRITE:
                print(step.text, end="", flush=True)

`SyncClient` is the same without asyncio. Needs only the package `websockets`. The protocol is in docs/protocol.md.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar

from bethink.errors import BethinkError, MissingExtra
from bethink.serve.protocol import HOPELESS, PATH, VERSION, LiveStep, Mark, Message, Refusal, dumps
from bethink.serve.replay import Memory

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["Client", "ConnectionLost", "LiveStep", "Refusal", "SyncClient"]

Result = TypeVar("Result")

AHEAD = 262_144  # units of text that may wait to be sent
BEHIND = 256  # steps that may wait to be read
FIRST_WAIT, LONGEST_WAIT = 0.5, 10.0  # seconds between attempts


class ConnectionLost(BethinkError):
    """The server could not be reached for longer than the client has patience."""


class Client:
    """One speaker. `send` text, `change` the policy, `end`; iterate over the steps, in another task if text takes time to come."""

    def __init__(
        self,
        url: str,
        *,
        model: str = "",
        policy: str = "",
        token: str = "",
        patience: float = 300.0,
        on_state: Callable[[str], None] | None = None,
    ) -> None:
        """`patience`: seconds to go on trying after a loss. `on_state` is told `connected`, `lost` and `ended`."""
        self.ready: Message = {}  # what the server said to `start`, last time
        self.final: Message = {}  # what it said at the end
        self.reconnects = 0
        self.socket: ClientConnection | None = None  # the connection of the moment, for those who want to look at it
        self._url = url.rstrip("/") + ("" if url.rstrip("/").endswith(PATH) else PATH)
        self._start = {"type": "start", "version": VERSION, "model": model, "policy": policy, "token": token}
        self._patience = patience
        self._on_state = on_state or (lambda _: None)
        self._memory = Memory()
        self._steps: deque[LiveStep | Exception] = deque()
        self._news, self._taken = asyncio.Event(), asyncio.Event()  # steps came in, were read
        self._more, self._room = asyncio.Event(), asyncio.Event()  # text came in, was sent
        self._work: asyncio.Task[None] | None = None
        self._ended = False  # nothing more will happen
        self._outcome: Exception | None = None  # and why, unless all was said

    async def __aenter__(self) -> Self:
        connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._work = asyncio.create_task(self._run(connected))
        try:
            await connected
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])

    # speaking

    async def send(self, text: str) -> None:
        """Say more, cut anywhere; waits while much is still to be sent, and raises what ended the stream."""
        self._require_open()
        while self._memory.unsent > AHEAD:
            self._room.clear()
            await self._room.wait()
            self._require_open()
        self._memory.say(text)
        self._more.set()

    async def change(self, policy: str) -> None:
        """Another policy from the next sentence on; one that cannot be is raised while iterating."""
        self._require_open()
        self._memory.change(policy)
        self._more.set()

    async def end(self) -> None:
        """The text is complete; the iteration ends with its last step."""
        self._memory.ended = True
        self._more.set()

    async def stream(self, chunks: AsyncIterable[str] | Iterable[str]) -> AsyncIterator[LiveStep]:
        """Send all chunks and end, and give the steps meanwhile."""
        speaking = asyncio.create_task(self._say(chunks))
        try:
            async for step in self:
                yield step
            await speaking
        finally:
            speaking.cancel()
            await asyncio.wait([speaking])

    async def _say(self, chunks: AsyncIterable[str] | Iterable[str]) -> None:
        try:
            if isinstance(chunks, AsyncIterable):
                async for chunk in chunks:
                    await self.send(chunk)
            else:
                for chunk in chunks:
                    await self.send(chunk)
            await self.end()
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) and task.cancelling():  # by `stream`: nobody reads any more
                raise
            await self._give(BethinkError("the chunks were cancelled before the text was complete"))
        except Exception as error:  # noqa: BLE001 - the caller's own iterable may raise anything
            await self._give(error)

    def _require_open(self) -> None:
        if self._outcome is not None:
            raise self._outcome
        if self._memory.ended or self._ended:
            raise BethinkError("this text has ended; open another Client for another text")

    # listening

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LiveStep:
        while not self._steps:
            if self._ended:
                raise self._outcome or StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        step = self._steps.popleft()
        self._taken.set()
        if isinstance(step, Exception):
            raise step
        return step

    async def _give(self, step: LiveStep | Exception) -> None:
        """To the reader; waits while it is far behind."""
        while len(self._steps) >= BEHIND:
            self._taken.clear()
            await self._taken.wait()
        self._steps.append(step)
        self._news.set()

    # the connection

    async def _run(self, connected: asyncio.Future[None]) -> None:
        """Until all is said, or there is no hope; nobody is left waiting, however it ends."""
        try:
            await self._keep_connected(connected)
        except asyncio.CancelledError:
            self._outcome = BethinkError("this Client was closed before its text was complete")
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to those who wait
            self._outcome = error
            if not connected.done():
                connected.set_exception(error)
                return
        finally:
            self._ended = True
            self._news.set()
            self._room.set()
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
                if isinstance(trouble, Refusal) and trouble.code == "idle":
                    await self._more.wait()  # no reason to come back before there is something to say
                from_now, wait = time.monotonic(), FIRST_WAIT
            if time.monotonic() - from_now > self._patience:
                raise ConnectionLost(f"{self._url} was out of reach for {self._patience:g} seconds: {trouble}")
            await asyncio.sleep(wait * random.uniform(0.75, 1.25))
            wait = min(2 * wait, LONGEST_WAIT)

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
        await socket.send(dumps({**self._start, **self._memory.resume()}))
        message = json.loads(await socket.recv())
        if message["type"] == "error":
            raise Refusal(message["code"], message["message"])
        self.reconnects += bool(self.ready)
        self.ready = message
        self.socket = socket
        self._memory.settle(Mark.of(message["resume"]))
        largest = max(1, int(message["limits"]["message"]) // 16)
        self._on_state("connected")
        if not connected.done():
            connected.set_result(None)
        speaking = asyncio.create_task(self._speak(socket, largest))
        try:
            await self._listen(socket)
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)

    async def _speak(self, socket: ClientConnection, largest: int) -> None:
        memory = self._memory
        while True:
            while memory.sent < len(memory.items):
                item = memory.items[memory.sent]
                memory.sent += 1
                if item.policy:
                    await socket.send(dumps({"type": "policy", "policy": item.policy}))
                for begin in range(0, len(item.text), largest):
                    await socket.send(dumps({"type": "text", "text": item.text[begin : begin + largest]}))
                self._room.set()
            if memory.ended:
                return await socket.send('{"type":"end"}')
            self._more.clear()
            await self._more.wait()

    async def _listen(self, socket: ClientConnection) -> None:
        async for frame in socket:
            message = json.loads(frame)
            kind = message["type"]
            if kind == "step":
                step = LiveStep.of(message)
                self._memory.see(step)
                await self._give(step)
            elif kind == "sentence":
                self._memory.settle(Mark.of(message["resume"]))
            elif kind == "final":
                self.final = message
            elif kind == "error":
                refusal = Refusal(message["code"], message["message"], fatal=message["fatal"])
                if refusal.fatal:
                    raise refusal
                await self._give(refusal)


class SyncClient:
    """`Client` for programs without asyncio: a thread of its own does the waiting."""

    def __init__(self, url: str, **options: Any) -> None:
        """Takes what `Client` takes."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bethink-client", daemon=True)
        self._client = Client(url, **options)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._wait(self._client.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._wait(self._client.__aexit__())
        self._stop()

    def send(self, text: str) -> None:
        self._wait(self._client.send(text))

    def change(self, policy: str) -> None:
        self._wait(self._client.change(policy))

    def end(self) -> None:
        self._wait(self._client.end())

    def __iter__(self) -> Iterator[LiveStep]:
        """Steps until the text has ended; waits for them, so `end` before, or `send` from another thread."""
        while True:
            try:
                yield self._wait(self._client.__anext__())
            except StopAsyncIteration:
                return

    @property
    def final(self) -> Message:
        return self._client.final

    @property
    def reconnects(self) -> int:
        return self._client.reconnects

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _websockets() -> Any:
    try:
        import websockets.asyncio.client
        import websockets.exceptions
    except ModuleNotFoundError as error:
        raise MissingExtra("the client", "serve") from error
    return websockets

"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Self

from bethink.client.connection import Connection
from bethink.client.exchange import Exchange
from bethink.errors import BethinkError
from bethink.serve.protocol import VERSION, LiveStep, Message

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection


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
        start = {"type": "start", "version": VERSION, "model": model, "policy": policy, "token": token}
        self._exchange = Exchange()
        self._connection = Connection(url, start, self._exchange, patience, on_state or (lambda _: None))
        self._work: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._work = asyncio.create_task(self._connection.run(connected))
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

    @property
    def ready(self) -> Message:
        """What the server said to `start`, last time."""
        return self._connection.ready

    @property
    def final(self) -> Message:
        """What it said at the end."""
        return self._connection.final

    @property
    def reconnects(self) -> int:
        return self._connection.reconnects

    @property
    def socket(self) -> ClientConnection | None:
        """The connection of the moment, for those who want to look at it."""
        return self._connection.socket

    # speaking

    async def send(self, text: str) -> None:
        """Say more, cut anywhere; waits while much is still to be sent, and raises what ended the stream."""
        await self._exchange.say(text)

    async def change(self, policy: str) -> None:
        """Another policy from the next sentence on; one that cannot be is raised while iterating."""
        self._exchange.change(policy)

    async def end(self) -> None:
        """The text is complete; the iteration ends with its last step."""
        self._exchange.end()

    async def stream(self, chunks: AsyncIterable[str] | Iterable[str]) -> AsyncIterator[LiveStep]:
        """Send all chunks and end, and give the steps meanwhile."""
        speaking = asyncio.create_task(self.say(chunks))
        try:
            async for step in self:
                yield step
            await speaking
        finally:
            speaking.cancel()
            await asyncio.wait([speaking])

    async def say(self, chunks: AsyncIterable[str] | Iterable[str]) -> None:
        """Send all chunks and end; if they fail, the reader sees it."""
        try:
            if isinstance(chunks, AsyncIterable):
                async for chunk in chunks:
                    await self.send(chunk)
            else:
                for chunk in chunks:
                    await self.send(chunk)
            await self.end()
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) and task.cancelling():  # from outside: nobody reads any more
                raise
            await self._exchange.give(BethinkError("the chunks were cancelled before the text was complete"))
        except Exception as error:  # noqa: BLE001 - the caller's own iterable may raise anything
            await self._exchange.give(error)

    # listening

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LiveStep:
        step = await self._exchange.next()
        if step is None:
            raise StopAsyncIteration
        return step

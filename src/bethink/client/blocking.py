"""`SyncClient`, the client for programs without asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from bethink.client.asynchronous import Client
from bethink.serve.protocol import Message
from bethink.trace import Step

Result = TypeVar("Result")


class SyncClient:
    """`Client` without asyncio: a background thread runs it."""

    def __init__(self, url: str, **options: Any) -> None:
        """Takes the arguments of `Client`."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bethink-client", daemon=True)
        self._client = Client(url, **options)
        self._feeding: Future[None] | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._wait(self._client.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if self._feeding is not None:
            self._feeding.cancel()
        self._wait(self._client.__aexit__())
        self._stop()

    def feed(self, text: str) -> None:
        self._wait(self._client.feed(text))

    def change(self, policy: str) -> None:
        self._wait(self._client.change(policy))

    def finish(self) -> None:
        self._wait(self._client.finish())

    def stream(self, chunks: Iterable[str]) -> Iterator[Step]:
        """Feed all chunks and finish; yields the steps meanwhile. Chunks may take time to arrive."""
        feeding = self._feeding = self._begin(self._client.feed_all(_drawn(chunks)))
        try:
            yield from self
        finally:
            feeding.cancel()

    def __iter__(self) -> Iterator[Step]:
        """Steps until the end of the text. Blocks, so call `finish` first, `feed` from another thread, or use `stream`."""
        while True:
            try:
                yield self._wait(self._client.__anext__())
            except StopAsyncIteration:
                return

    @property
    def ready(self) -> Message:
        return self._client.ready

    @property
    def final(self) -> Message:
        return self._client.final

    @property
    def reconnects(self) -> int:
        return self._client.reconnects

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._begin(work).result()

    def _begin(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _drawn(chunks: Iterable[str]) -> AsyncIterator[str]:
    """The chunks as they arrive; the event loop goes on meanwhile."""
    source = iter(chunks)
    while (chunk := await asyncio.wrap_future(_draw(source))) is not None:
        yield chunk


def _draw(source: Iterator[str]) -> Future[str | None]:
    """The next chunk; a daemon thread waits for it, so that the program can end."""
    drawn: Future[str | None] = Future()
    drawn.set_running_or_notify_cancel()  # now it cannot be cancelled, so the thread can always set it

    def draw() -> None:
        try:
            drawn.set_result(next(source, None))
        except Exception as error:  # noqa: BLE001 - the caller's iterable may raise anything
            drawn.set_exception(error)

    threading.Thread(target=draw, name="bethink-source", daemon=True).start()
    return drawn

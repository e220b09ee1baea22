"""The client for programs without asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, Self, TypeVar

from bethink.client.asynchronous import Client
from bethink.serve.protocol import LiveStep, Message

Result = TypeVar("Result")


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

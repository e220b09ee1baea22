"""Translating for many speakers at once, for asyncio: sessions come and go, and one thread drives one engine for all of them.

Everything is bounded. A speaker who is faster than the engine waits in `feed`; a reader who stops reading stops its own stream,
once the sentence in flight is written, and nobody else's. A session's words do not depend on who else is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Self

from bethink.engine import Engine
from bethink.errors import UsageError
from bethink.hub import INBOX, OUTBOX, PIECE, Counters, Hub, Line
from bethink.policy import Policy
from bethink.trace import Step, shown
from bethink.translator import Translator, require_text


class AsyncTranslator:
    """One model for many speakers: `async with AsyncTranslator("toy") as live: print(await live.translate("te riki ."))`.

    Belongs to the event loop in which it was entered. The model may be a `Translator` at hand, which other threads may go on
    using, or the name or folder of one, loaded on entering.
    """

    def __init__(self, model: Translator | str | os.PathLike[str], *, batch: int = 64) -> None:
        """`batch` is how many streams one call of the model advances; those left over come first in the next."""
        self._model = model
        self._batch = batch
        self._hub: Hub | None = None

    async def __aenter__(self) -> Self:
        if self._hub is not None:
            raise UsageError("this AsyncTranslator is already open; make another one")
        if not isinstance(self._model, Translator):
            self._model = await asyncio.to_thread(Translator, self._model)
        loop = asyncio.get_running_loop()

        def wake(lines: Sequence[Line]) -> None:
            with contextlib.suppress(RuntimeError):  # a loop that is gone has nobody left to wake
                loop.call_soon_threadsafe(_wake, lines)

        self._hub = Hub(Engine(self._model.backend, batch=self._batch), wake)
        self._hub.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        hub, self._hub = self._running, None
        for line in hub.stop():
            line.error = UsageError("the AsyncTranslator was closed while this session was open; finish sessions first")
            line.wake()
        await asyncio.to_thread(hub.join)

    @property
    def translator(self) -> Translator:
        """The model, its vocabularies and its recommended policy."""
        if not isinstance(self._model, Translator):
            raise UsageError("this AsyncTranslator has no model yet; enter it with 'async with' first")
        return self._model

    def session(self, policy: str | Policy | None = None) -> AsyncSession:
        """One speaker. A policy that the model cannot serve raises at once. Close it, or use it in `async with`."""
        return AsyncSession(self.translator, self._running, self.translator.served(policy))

    async def translate(self, text: str, policy: str | Policy | None = None) -> str:
        """A whole text, however long, beside whatever else is being translated."""
        return shown([step async for step in self.stream([text], policy)])

    async def stream(
        self, chunks: AsyncIterable[str] | Iterable[str], policy: str | Policy | None = None
    ) -> AsyncIterator[Step]:
        """Steps as text arrives, however it is cut. Chunks that take time to come must come from an async iterable."""
        async with self.session(policy) as session:
            speaking = asyncio.create_task(session.say(chunks))
            try:
                async for step in session:
                    yield step
            finally:
                speaking.cancel()
                await asyncio.wait([speaking])

    def counters(self) -> Counters:
        """What is going on, for metrics; may be called from any thread."""
        return self._running.counters()

    @property
    def _running(self) -> Hub:
        if self._hub is None:
            raise UsageError("this AsyncTranslator is not open; write 'async with AsyncTranslator(…) as live:'")
        return self._hub


class AsyncSession:
    """One speaker's text on its way: `feed` it, `finish` it, and read its steps with `async for`.

    Each step says when it was made (`at`, seconds since the session was opened) and how long the newest source word it knew had
    been there (`waited`, seconds since that word was fed). The steps of a text end where it was finished; then the session can be
    used again for a text of its own. `close` drops everything at once, as when a speaker hangs up. Speak and read in two tasks:
    a long text cannot be fed whole while nobody reads.
    """

    def __init__(self, translator: Translator, hub: Hub, policy: Policy) -> None:
        self._translator = translator
        self._hub = hub
        self._room, self._news = asyncio.Event(), asyncio.Event()
        self._feeding = asyncio.Lock()  # so that two tasks which feed at once do not mix their texts
        self._line = Line(translator.session(policy, engine=hub.engine), self._wake)
        hub.open(self._line)

    @property
    def policy(self) -> Policy:
        return self._line.session.policy

    @policy.setter
    def policy(self, policy: str | Policy) -> None:
        """May be changed at any time, and raises for what the model cannot serve; the next sentence uses it."""
        self._line.session.policy = self._translator.served(policy)

    @property
    def closed(self) -> bool:
        return self._line.closed

    async def feed(self, text: str) -> None:
        """Hear more text, cut anywhere; returns when it was taken, and waits while the engine is far behind.

        A feed that is cancelled while it waits may have been taken in part.
        """
        require_text(text, "the text")
        async with self._feeding:
            self._check_open()
            for start in range(0, len(text), PIECE):
                await self._put(text[start : start + PIECE])

    async def finish(self) -> None:
        """The text is complete: what is left of it is translated, and the iteration over its steps ends there."""
        async with self._feeding:
            await self._put(None)

    async def say(self, chunks: AsyncIterable[str] | Iterable[str]) -> None:
        """Feed all chunks and finish; if they end with an error or are cancelled, the reader sees it."""
        try:
            if isinstance(chunks, AsyncIterable):
                async for chunk in chunks:
                    await self.feed(chunk)
            else:
                for chunk in chunks:
                    await self.feed(chunk)
            await self.finish()
        except asyncio.CancelledError:
            self._fail(UsageError("the chunks were cancelled before the text was complete; open another session"))
            raise
        except Exception as error:  # noqa: BLE001 - the caller's own iterable may raise anything
            self._fail(error)

    def close(self) -> None:
        """Drop everything in flight; whoever reads comes to the end, whoever feeds gets an error."""
        self._hub.close(self._line)
        self._wake()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Step:
        for step in await self.some(1):
            return step
        raise StopAsyncIteration

    async def some(self, most: int) -> list[Step]:
        """The steps that are there, at least one of them and at most so many; none where the text ends."""
        line = self._line
        steps: list[Step] = []
        while line.closed or not line.outbox:
            if line.error is not None:
                raise line.error
            if line.closed:
                return []
            self._news.clear()
            await self._news.wait()
        while line.outbox and len(steps) < most and (line.outbox[0] is not None or not steps):
            step = line.outbox.popleft()
            if len(line.outbox) == OUTBOX // 2:
                self._hub.note(line)
            if step is None:
                break
            steps.append(step)
        return steps

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _put(self, piece: str | None) -> None:
        line = self._line
        self._check_open()
        while len(line.inbox) >= INBOX:
            self._room.clear()
            await self._room.wait()
            self._check_open()
        line.inbox.append((time.monotonic(), piece))
        self._hub.note(line)

    def _fail(self, error: Exception) -> None:
        self._line.error = self._line.error or error
        self.close()

    def _check_open(self) -> None:
        if self._line.error is not None:
            raise self._line.error
        if self._line.closed:
            raise UsageError("this session is closed; open another one")

    def _wake(self) -> None:
        self._room.set()
        self._news.set()


def _wake(lines: Sequence[Line]) -> None:
    for line in lines:
        line.wake()

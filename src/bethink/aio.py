"""The asyncio API: any number of sessions in one event loop, and one thread that drives one engine for all of them.

Everything is bounded. Whoever feeds faster than the engine translates waits in `feed`; whoever stops reading stops its own session,
once the sentence in flight is written, and no other. A session's steps do not depend on the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import Self

from bethink.engine import Engine
from bethink.engine_thread import INBOX, OUTBOX, PIECE, Counters, EngineThread, Mailbox
from bethink.errors import UsageError
from bethink.policy import Policy
from bethink.session import require_text
from bethink.trace import ResumePoint, Step, shown
from bethink.translator import Translator


class AsyncTranslator:
    """One model for many speakers: `async with AsyncTranslator("toy") as live: print(await live.translate("te riki ."))`.

    Belongs to the event loop in which it was entered. The model may be a `Translator` at hand, which other threads may go on
    using, or the name or folder of one, loaded on entering.
    """

    def __init__(self, model: Translator | str | os.PathLike[str], *, batch: int = 64) -> None:
        """`batch` is how many streams one call of the model advances; those left over come first in the next."""
        self._model = model
        self._batch = batch
        self._thread: EngineThread | None = None

    async def __aenter__(self) -> Self:
        if self._thread is not None:
            raise UsageError("this AsyncTranslator is already open; make another one")
        if not isinstance(self._model, Translator):
            self._model = await asyncio.to_thread(Translator, self._model)
        loop = asyncio.get_running_loop()

        def wake(mailboxes: Sequence[Mailbox]) -> None:
            with contextlib.suppress(RuntimeError):  # a loop that is gone has nobody left to wake
                loop.call_soon_threadsafe(_wake, mailboxes)

        self._thread = EngineThread(Engine(self._model.backend, batch=self._batch), wake)
        self._thread.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        thread, self._thread = self._running, None
        left = UsageError("the AsyncTranslator was closed while this session was open; finish sessions first")
        for mailbox in thread.stop():
            mailbox.error = left
            mailbox.wake()
        await asyncio.to_thread(thread.join)

    @property
    def translator(self) -> Translator:
        """The model, its vocabularies and its recommended policy."""
        if not isinstance(self._model, Translator):
            raise UsageError("this AsyncTranslator has no model yet; enter it with 'async with' first")
        return self._model

    def session(self, policy: str | Policy | None = None, *, begin: ResumePoint | None = None) -> AsyncSession:
        """One speaker. A policy that the model cannot serve raises at once. Close it, or use it in `async with`."""
        return AsyncSession(self.translator, self._running, self.translator.served(policy), begin)

    async def translate(self, text: str, policy: str | Policy | None = None) -> str:
        """A whole text, however long, beside whatever else is being translated."""
        return shown([step async for step in self.stream([text], policy)])

    async def stream(
        self, chunks: AsyncIterable[str] | Iterable[str], policy: str | Policy | None = None
    ) -> AsyncIterator[Step]:
        """Steps as text arrives, however it is cut. Chunks that take time to come must come from an async iterable."""
        async with self.session(policy) as session:
            feeding = asyncio.create_task(session.feed_all(chunks))
            try:
                async for step in session:
                    yield step
            finally:
                feeding.cancel()
                await asyncio.wait([feeding])

    def counters(self) -> Counters:
        """What is going on, for metrics; may be called from any thread."""
        return self._running.counters()

    @property
    def _running(self) -> EngineThread:
        if self._thread is None:
            raise UsageError("this AsyncTranslator is not open; write 'async with AsyncTranslator(…) as live:'")
        return self._thread


class AsyncSession:
    """One speaker's text on its way: `feed` it, `finish` it, and read its steps with `async for`.

    The steps of a text end where it was finished; then the session can be used again for a text of its own. `close` drops everything
    at once, as when a speaker hangs up. Feed and read in two tasks: a long text cannot be fed whole while nobody reads.
    """

    def __init__(
        self, translator: Translator, thread: EngineThread, policy: Policy, begin: ResumePoint | None = None
    ) -> None:
        self.policy = policy  # the last one asked for
        self._translator = translator
        self._thread = thread
        self._news = asyncio.Event()  # there may be steps, room or an error
        self._feeding = asyncio.Lock()  # so that two tasks which feed at once do not mix their texts
        session = translator.session(policy, engine=thread.engine, begin=begin)
        self._mailbox = Mailbox(session, self._news.set)
        thread.open(self._mailbox)

    @property
    def waited(self) -> float:
        """Seconds that the newest word read has spent in the engine: what translating and waiting for others cost."""
        return self._mailbox.session.waited

    @property
    def closed(self) -> bool:
        return self._mailbox.closed

    async def feed(self, text: str) -> None:
        """Append text, cut anywhere; returns when it was taken, and waits while the engine is far behind.

        A feed that is cancelled while it waits may have been taken in part.
        """
        require_text(text, "the text")
        await self._put(*(text[start : start + PIECE] for start in range(0, len(text), PIECE)))

    async def change(self, policy: str | Policy) -> None:
        """Another policy, for sentences whose first word is completed by text fed from now on.

        Raises at once for one that the model cannot serve.
        """
        self.policy = self._translator.served(policy)
        await self._put(self.policy)

    async def finish(self) -> None:
        """The text is complete: what is left of it is translated, and the iteration over its steps ends there."""
        await self._put(None)

    async def feed_all(self, chunks: AsyncIterable[str] | Iterable[str]) -> None:
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
        self._thread.close(self._mailbox)
        self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Step:
        for step in await self.some(1):
            return step
        raise StopAsyncIteration

    async def some(self, most: int) -> list[Step]:
        """The steps that are there, at least one of them and at most so many; none where the text ends."""
        mailbox = self._mailbox
        steps: list[Step] = []
        while mailbox.closed or not mailbox.outbox:
            if mailbox.error is not None:
                raise mailbox.error
            if mailbox.closed:
                return []
            self._news.clear()
            await self._news.wait()
        while mailbox.outbox and len(steps) < most and (mailbox.outbox[0] is not None or not steps):
            step = mailbox.outbox.popleft()
            if len(mailbox.outbox) == OUTBOX // 2:
                self._thread.note(mailbox)
            if step is None:
                break
            steps.append(step)
        return steps

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()

    async def _put(self, *items: str | Policy | None) -> None:
        mailbox, arrived = self._mailbox, time.monotonic()
        async with self._feeding:
            self._check_open()
            for item in items:
                while len(mailbox.inbox) >= INBOX:
                    self._news.clear()
                    await self._news.wait()
                    self._check_open()
                mailbox.inbox.append((arrived, item))
                self._thread.note(mailbox)

    def _fail(self, error: Exception) -> None:
        self._mailbox.error = self._mailbox.error or error
        self.close()

    def _check_open(self) -> None:
        if self._mailbox.error is not None:
            raise self._mailbox.error
        if self._mailbox.closed:
            raise UsageError("this session is closed; open another one")


def _wake(mailboxes: Sequence[Mailbox]) -> None:
    for mailbox in mailboxes:
        mailbox.wake()

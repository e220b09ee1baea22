"""The asyncio API: many sessions in one event loop, and one thread that runs one engine for all of them.

All queues are bounded. `feed` waits while the engine is behind. A session whose steps nobody reads stops after the sentence in
flight; other sessions go on. The steps of a session do not depend on other sessions.
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
from bethink.text import Glossary
from bethink.trace import ResumePoint, Step, Tail, shown
from bethink.translator import Translator


class AsyncTranslator:
    """One model for many speakers: `async with AsyncTranslator("toy") as live: print(await live.translate("te riki ."))`.

    It belongs to the event loop in which it was entered. The model is a `Translator`, which other threads may use at the same time,
    or the name or folder of a model, which is loaded on entering.
    """

    def __init__(self, model: Translator | str | os.PathLike[str], *, batch: int = 64) -> None:
        """`batch`: how many streams one call of the model may advance; streams left out come first in the next call."""
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
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
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

    def session(
        self,
        policy: str | Policy | None = None,
        *,
        begin: ResumePoint | None = None,
        owner: str = "",
        glossary: Glossary | None = None,
        tails: bool = False,
    ) -> AsyncSession:
        """A session for one speaker. Raises if the model cannot serve the policy. Close it, or use `async with`.

        Text that comes faster than speech waits while somebody speaks; there, different owners take turns. With `tails`, `some` also
        gives what the model would write next.
        """
        policy = self.translator.served(policy)
        return AsyncSession(self.translator, self._running, policy, begin, owner, glossary, tails=tails)

    async def translate(self, text: str, policy: str | Policy | None = None) -> str:
        """Translate a whole text of any length, while other sessions go on."""
        return shown([step async for step in self.stream([text], policy)], corrections=True)

    async def stream(
        self, chunks: AsyncIterable[str] | Iterable[str], policy: str | Policy | None = None
    ) -> AsyncIterator[Step]:
        """Steps while text arrives, cut anywhere. Use an async iterable if chunks take time to arrive."""
        async with self.session(policy) as session:
            feeding = asyncio.create_task(session.feed_all(chunks))
            try:
                async for step in session:
                    yield step
            finally:
                feeding.cancel()
                await asyncio.wait([feeding])

    def counters(self) -> Counters:
        """Counters for metrics; may be called from any thread."""
        return self._running.counters()

    @property
    def _running(self) -> EngineThread:
        if self._thread is None:
            raise UsageError("this AsyncTranslator is not open; write 'async with AsyncTranslator(…) as live:'")
        return self._thread


class AsyncSession:
    """One speaker's text: `feed` text, `finish` it, and read the steps with `async for`.

    The iteration ends with the last step of the finished text; then the session can take another text. `close` drops everything
    at once. Feed and read in two tasks: `feed` waits if nobody reads.
    """

    def __init__(
        self,
        translator: Translator,
        thread: EngineThread,
        policy: Policy,
        begin: ResumePoint | None,
        owner: str,
        glossary: Glossary | None = None,
        *,
        tails: bool = False,
    ) -> None:
        self.policy = policy  # the last one set by `change`
        self._translator = translator
        self._thread = thread
        self._news = asyncio.Event()  # set when there may be steps, room for text, or an error
        self._feeding = asyncio.Lock()  # keeps the texts of two tasks apart that feed at the same time
        session = translator.session(policy, engine=thread.engine, begin=begin, glossary=glossary)
        self._mailbox = Mailbox(session, self._news.set, owner, tails=tails)
        thread.open(self._mailbox)

    @property
    def waiting(self) -> float:
        """Seconds that the oldest text fed has waited for the engine; 0 if the steps were not read, or if text comes faster than speech."""
        now, mailbox = time.monotonic(), self._mailbox
        with contextlib.suppress(IndexError):  # the engine takes it at this moment
            if mailbox.pace.is_speech(now) and not mailbox.full:
                return now - mailbox.inbox[0][0]
        return 0.0

    def lag(self, step: Step) -> float:
        """Seconds from the arrival of the text that completed the word read last to now, when the step is handed on."""
        made = self._mailbox.session.began + (step.at or 0) / 1000
        return max(0.0, time.monotonic() - made) + (step.lag or 0) / 1000

    @property
    def is_speech(self) -> bool:
        """Whether text comes at most as fast as people speak."""
        return self._mailbox.pace.is_speech(time.monotonic())

    @property
    def closed(self) -> bool:
        return self._mailbox.closed

    async def feed(self, text: str) -> None:
        """Append text, cut anywhere; waits while the engine is far behind.

        If it is cancelled while it waits, a part of the text may have been taken.
        """
        require_text(text, "the text")
        self._mailbox.pace.add(len(text), time.monotonic())
        await self._put(*(text[start : start + PIECE] for start in range(0, len(text), PIECE)))

    async def change(self, policy: str | Policy) -> None:
        """Use another policy for sentences whose first word is completed by text fed from now on.

        Raises at once if the model cannot serve it.
        """
        self.policy = self._translator.served(policy)
        await self._put(self.policy)

    async def finish(self) -> None:
        """End the text: the rest is translated, and the iteration ends with the last step."""
        await self._put(None)

    async def feed_all(self, chunks: AsyncIterable[str] | Iterable[str]) -> None:
        """Feed all chunks and finish. If the chunks raise an error or are cancelled, the reader gets that error."""
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
        except Exception as error:  # noqa: BLE001 - the caller's iterable may raise anything
            self._fail(error)

    def close(self) -> None:
        """Drop everything in flight: reading ends, feeding raises an error."""
        self._thread.close(self._mailbox)
        self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Step:
        while some := await self.some(1):
            if isinstance(some[0], Step):
                return some[0]
        raise StopAsyncIteration

    async def some(self, most: int) -> list[Step | Tail]:
        """The steps that are ready, at least 1 and at most `most`; waits for the first. Empty at the end of the text.

        A tail among them follows the text of the steps before it.
        """
        mailbox = self._mailbox
        steps: list[Step | Tail] = []
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

"""One stream: a client's text goes in at one side, messages come out at the other, and little is held in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from bethink.policy import Action, Policy
from bethink.serve.ledger import Ledger, Portion
from bethink.serve.limits import Pressure
from bethink.serve.metrics import Metrics
from bethink.serve.models import Model
from bethink.serve.protocol import LiveStep, Mark, Message, Refusal, Resume, units
from bethink.serve.teller import Teller
from bethink.text import EOS
from bethink.trace import Step

TOGETHER = 32  # steps that are told at a time, at most


class Speaker:
    """Speak in one task (`hear`, `change`, `finish`) and iterate over the messages in another.

    `hear` returns when the text was handed over to the engine, one sentence at a time, so whoever awaits it before reading
    on from a socket holds no more than one message and one sentence.
    """

    def __init__(
        self,
        model: Model,
        policy: Policy,
        mark: Mark,
        resume: Resume | None,
        metrics: Metrics,
        pressure: Pressure,
    ) -> None:
        self.model = model
        self.policy = policy  # the last one asked for
        self.began = time.monotonic()
        self.heard = 0  # units of text on this connection
        loop = asyncio.get_running_loop()
        self.warned: asyncio.Future[None] = loop.create_future()  # the server will stop
        self.stopped: asyncio.Future[None] = loop.create_future()  # now
        self._session = model.live.session(policy)
        self._ledger = Ledger(model.translator.source, policy, mark.offset)
        self._teller = Teller(self._ledger, mark, self.began)
        self._resume = resume
        self._metrics = metrics
        self._pressure = pressure
        self._begun = self._finished = 0  # sentences, as the steps say
        self._handed = 0  # sentences of which something was given to the session
        self._news = asyncio.Event()

    @property
    def mark(self) -> Mark:
        return self._teller.mark

    # what the client says

    async def hear(self, text: str) -> None:
        self.heard += units(text)
        self._ledger.hear(text, time.monotonic())
        await self._hand_over()

    def change(self, policy: Policy) -> None:
        self.policy = policy
        self._ledger.change(policy)

    async def finish(self) -> None:
        self._ledger.finish(time.monotonic())
        await self._hand_over()

    async def _hand_over(self) -> None:
        portion = self._ledger.take()
        while portion is not None:
            await self._ready_for(portion)
            self._handed = self._ledger.begun
            if portion.begins:
                self._session.policy = portion.policy
            if portion.text:
                await self._session.feed(portion.text)
            if portion.final:
                await self._session.finish()
            if (portion := self._ledger.take()) is not None:
                await asyncio.sleep(0)  # a long message must not keep the others waiting

    async def _ready_for(self, portion: Portion) -> None:
        """A sentence begins when the one before it is finished; when draining, no more."""
        while (
            self._finished < portion.finished or self._begun < portion.begun or (self.warned.done() and portion.begins)
        ):
            self._news.clear()
            await self._news.wait()

    # what it is told

    async def messages(self) -> AsyncIterator[list[LiveStep | Message]]:
        """Steps that the client has not seen, an account of each sentence, and a last one of all; what is there, together."""
        while steps := await self._session.some(TOGETHER):
            self._pressure.feel(steps[-1].waited or 0.0)
            if messages := self._tell(steps):
                yield messages
            self._begun = steps[-1].sentence + 1
            self._finished = self._begun - (not _ends(steps[-1]))
            self._news.set()
        if self.stopped.done():
            raise Refusal("draining", "this server is about to stop; connect again, and resume what can be resumed")
        yield [self._teller.final(time.monotonic())]

    def _tell(self, steps: Sequence[Step]) -> list[LiveStep | Message]:
        messages: list[LiveStep | Message] = []
        now, seen = time.monotonic(), 0 if self._resume is None else self._resume.seen
        for step in steps:
            told = self._teller.tell(step, now)
            self._compare(told)
            if told.n >= seen:
                self._metrics.sent(told)
                messages.append(told)
            if _ends(step):
                messages.append(self._teller.close_sentence())
        return messages

    def _compare(self, told: LiveStep) -> None:
        resume = self._resume
        if resume is not None and resume.check and told.n == resume.seen - 1 and told.check != resume.check:
            raise Refusal(
                "diverged",
                "this server translates the open sentence differently from the one before; start anew without 'resume'",
            )

    # the end

    async def drain(self, limit: float) -> None:
        """Let the sentence in flight be finished, if that takes no longer than `limit` seconds, then stop."""
        _mark_done(self.warned)
        try:
            async with asyncio.timeout(limit):
                while self._finished < self._handed:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass
        self.stop()

    def stop(self) -> None:
        _mark_done(self.stopped)
        self.close()

    def close(self) -> None:
        self._session.close()


def _ends(step: Step) -> bool:
    """Whether a sentence is finished with it."""
    return step.token == EOS and step.action is Action.WRITE


def _mark_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

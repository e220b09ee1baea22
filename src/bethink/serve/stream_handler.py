"""One stream of the service: a client's text goes in at one side, messages come out at the other, and little is held in between."""

from __future__ import annotations

import asyncio
import bisect
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from bethink.evaluate import latency
from bethink.policy import Action, Policy
from bethink.serve.limits import Pressure
from bethink.serve.metrics import LAGS, Metrics
from bethink.serve.models import Model
from bethink.serve.protocol import Message, Refusal, Resume, checked, resume_message, step_message
from bethink.trace import ResumePoint, Step, Translation, units

TOGETHER = 32  # steps that are sent at a time, at most
EDGES = tuple(round(1000 * seconds) for seconds in LAGS)  # of the histogram, in milliseconds


class Lags:
    """A histogram of how late words were, in milliseconds: little memory, however many words there are."""

    def __init__(self) -> None:
        self._counts = [0] * (len(EDGES) + 1)
        self._sum = self._most = 0

    def add(self, lag: int) -> None:
        self._counts[bisect.bisect_left(EDGES, lag)] += 1
        self._sum += lag
        self._most = max(self._most, lag)

    def to_message(self) -> Message:
        total = sum(self._counts)
        if not total:
            return {}
        mean = round(self._sum / total, 1)
        return {"mean": mean, "p50": self._quantile(0.5), "p95": self._quantile(0.95), "max": self._most}

    def _quantile(self, share: float) -> int:
        """The upper edge of the bucket it falls into, or the largest value of all where that is less."""
        rank, seen = share * sum(self._counts), 0
        for edge, count in zip(EDGES, self._counts, strict=False):
            seen += count
            if seen >= rank:
                return min(edge, self._most)
        return self._most


@dataclass(frozen=True, slots=True)
class SentenceEnd:
    """A sentence is finished; `resume` is where the next can be begun anew, by whoever has seen all before it."""

    translation: Translation
    delays: list[int]
    latency: dict[str, float]
    resume: ResumePoint


class StreamHandler:
    """Feed it in one task (`feed`, `policy`, `finish`) and iterate over its messages in another.

    `feed` returns when the engine has room for the text, so whoever awaits it before reading on from a socket holds no more than one
    message and what fits into a mailbox.
    """

    def __init__(
        self,
        model: Model,
        policy: Policy,
        begin: ResumePoint,
        resume: Resume | None,
        metrics: Metrics,
        pressure: Pressure,
    ) -> None:
        self.model = model
        self.units = 0  # of text on this connection
        self.resume = begin  # where a client that loses this connection can begin again
        self.warned: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # the server is about to stop
        self._session = model.live.session(policy, begin=begin)
        self._began = time.monotonic()
        self._seen, self._expected = (resume.seen, resume.check) if resume else (0, "")
        self._metrics = metrics
        self._pressure = pressure
        self._steps: list[Step] = []  # of the open sentence
        self._check = 0  # their checksum
        self._open = False  # whether steps of an unfinished sentence are sent, or about to be
        self._sent = asyncio.Event()
        self._total = {"steps": begin.step, "sentences": begin.sentence, "words": 0, "written": 0}
        self._lags = Lags()
        self._scored, self._scores = 0, dict[str, float]()  # sentences, and the sums of their latency

    # what the client says

    @property
    def policy(self) -> Policy:
        """The last one asked for; it holds from the first sentence on whose first word comes after it."""
        return self._session.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._session.policy = policy

    async def feed(self, text: str) -> None:
        self.units += units(text)
        await self._session.feed(text)

    async def finish(self) -> None:
        await self._session.finish()

    # what it is told

    async def messages(self) -> AsyncIterator[list[Message]]:
        """Steps that the client has not seen, an account of each sentence, and a last one of all; what is there, together."""
        async for events in self.events():
            messages: list[Message] = []
            for event in events:
                if isinstance(event, SentenceEnd):
                    self._check = 0
                    messages.append(self._sentence(event))
                elif self._is_new(event):
                    self._metrics.sent(event)
                    messages.append(step_message(event, self._check))
            if messages:
                yield messages
        yield [self._final()]

    async def events(self) -> AsyncIterator[list[Step | SentenceEnd]]:
        """Every step and, after its last one, the end of each sentence."""
        draining = False
        while not draining and (steps := await self._session.some(TOGETHER)):
            self._pressure.add(self._session.waited)
            self._open = True
            events: list[Step | SentenceEnd] = []
            for step in steps:
                events.append(step)
                self._steps.append(step)
                if step.action is Action.WRITE and step.text:
                    self._lags.add(step.lag or 0)
                if step.action is Action.WRITE and step.end:
                    events.append(self._close_sentence())
                    if draining := self.warned.done():
                        break
            yield events
            self._open = bool(self._steps)
            self._sent.set()
        if draining or self.closed:
            raise Refusal("draining", "this server is about to stop; connect again, and resume what can be resumed")

    def latency(self) -> dict[str, float]:
        """AL, AP, DAL and CW, each the mean over sentences."""
        return {name: round(value / self._scored, 3) for name, value in self._scores.items()}

    def _close_sentence(self) -> SentenceEnd:
        last, translation = self._steps[-1], Translation.of(self._steps)
        delays, words = translation.delays, len(translation.source)
        scores = _latency(delays, words) if delays and words else {}
        self._steps, self.resume = [], last.resume or self.resume
        self._total["steps"] += len(translation.steps)
        self._total["sentences"] = last.sentence + 1
        self._total["words"] += words
        self._total["written"] += len(delays)
        if scores:
            self._scored += 1
            self._scores = {name: self._scores.get(name, 0.0) + value for name, value in scores.items()}
        return SentenceEnd(translation, delays, scores, self.resume)

    def _is_new(self, step: Step) -> bool:
        """Whether the client has not seen this step; raises if it saw another one in its place."""
        assert step.n is not None, "a session numbers its steps"
        self._check = checked(self._check, step)
        if self._expected and step.n == self._seen - 1 and f"{self._check:08x}" != self._expected:
            raise Refusal(
                "diverged",
                "this server translates the open sentence differently from the one before; start anew without 'resume'",
            )
        return step.n >= self._seen

    def _sentence(self, end: SentenceEnd) -> Message:
        scores = {name: round(value, 3) for name, value in end.latency.items()}
        return {
            "type": "sentence",
            "sentence": end.translation.steps[-1].sentence,
            "words": len(end.translation.source),
            "written": len(end.delays),
            **({"latency": scores} if scores else {}),
            "resume": resume_message(self.model.identity, end.resume),
        }

    def _final(self) -> Message:
        seconds = round(time.monotonic() - self._began, 3)
        lag = self._lags.to_message()
        return {"type": "final", **self._total, "seconds": seconds, "latency": self.latency(), "lag": lag}

    # the end

    async def drain(self, limit: float) -> None:
        """Let the open sentence be finished, if that takes no longer than `limit` seconds, then stop."""
        if not self.warned.done():
            self.warned.set_result(None)
        try:
            async with asyncio.timeout(limit):
                while self._open:
                    self._sent.clear()
                    await self._sent.wait()
        except TimeoutError:
            pass
        self.stop()

    def stop(self) -> None:
        """Let nothing more be sent, and the client be told to come back."""
        if not self.warned.done():
            self.warned.set_result(None)
        self.close()

    def close(self) -> None:
        self._session.close()

    @property
    def closed(self) -> bool:
        return self._session.closed


def _latency(delays: Sequence[int], words: int) -> dict[str, float]:
    """In source words, against the length of the translation itself: there is no reference."""
    return {
        "AL": latency.average_lagging(delays, words, len(delays)),
        "AP": latency.average_proportion(delays, words, len(delays)),
        "DAL": latency.differentiable(delays, words),
        "CW": latency.consecutive_wait(delays, words),
    }

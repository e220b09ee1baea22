"""One stream of the server: a client's text goes in, messages come out, and little is held in between."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from bethink.evaluate import latency
from bethink.policy import Action
from bethink.serve.auth import Marks
from bethink.serve.limits import Pressure
from bethink.serve.metrics import Metrics
from bethink.serve.models import Model
from bethink.serve.protocol import Message, Refusal, Start, checked, resume_message, step_message, tail_message
from bethink.serve.rooms import Room
from bethink.trace import ResumePoint, Step, Tail, Translation

TOGETHER = 32  # steps sent together, at most
QUIET = 5.0  # seconds without a step after which nobody speaks


@dataclass(frozen=True, slots=True)
class SentenceEnd:
    """The end of a sentence; a client that has seen everything before can continue at `resume`."""

    translation: Translation
    delays: list[int]
    latency: dict[str, float]
    resume: ResumePoint


class StreamHandler:
    """Feed its session in one task and iterate over its messages in another.

    `session.feed` returns when the engine has room for the text. A caller that awaits it before it reads on from a socket holds at
    most one message beside what is in the mailbox.
    """

    def __init__(
        self,
        model: Model,
        start: Start,
        metrics: Metrics,
        room: Room | None = None,
        *,
        name: str = "",
        address: str = "",
        marks: Marks | None = None,
    ) -> None:
        """`room`: also show the translation there. `name`: that of the session, which a client that resumes keeps."""
        resume = start.resume
        begin = resume.point if resume else ResumePoint(str(model.policy(start.policy)))
        self._room, self._track = room, room.track(model.name) if room else None
        self._writer = object()  # what the track knows this stream by
        if self._track and resume:
            self._track.resume(resume, self._writer)
        elif self._track:  # after everything that stands in the room
            begin = self._track.begin(begin.policy, self._writer)
        self.model, self.name, self.address = model, name, address
        self.policy = model.policy(begin.policy)  # the first policy
        self.resume = begin  # where a client that loses this connection can continue
        # done when the server is about to stop
        self.warned: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.session = model.session(self.policy, begin, address, start.glossary, tails=start.tail)
        self._began = time.monotonic()
        self._seen, self._expected = (resume.seen, resume.check) if resume else (0, "")
        self._place = begin.step  # the number of the next step
        self._metrics = metrics
        self._marks = marks or Marks()
        self._pressure, self._spoke = Pressure(), -math.inf  # of words that come as speech; the time of the last one
        self._steps: list[Step] = []  # of the open sentence
        self._check = 0  # their checksum
        self._open = False  # whether steps of an unfinished sentence were or are being sent
        self._sent = asyncio.Event()
        self._total = {"steps": begin.step, "sentences": begin.sentence, "words": 0, "written": 0}
        self._lags = [0, 0, 0]  # words shown, and the sum and the largest of their lags, in milliseconds
        self._scored, self._scores = 0, dict[str, float]()  # sentences, and the sums of their latency in source words

    async def messages(self) -> AsyncIterator[list[Message]]:
        """The messages for the client: steps it has not seen, one per sentence end, and a final one; in groups."""
        async for events in self.events():
            messages: list[Message] = []
            for event in events:
                if isinstance(event, SentenceEnd):
                    self._check = 0
                    messages.append(self._sentence(event))
                    continue
                # for this client alone, never for a room; not while it is still caught up with
                if isinstance(event, Tail):
                    messages += [tail_message(event)] if self._place >= self._seen else []
                    continue
                is_new = self._is_new(event)
                if self._track and self._room:
                    self._track.add(event, self._check, self._room.now)
                if is_new:
                    self._metrics.sent(event)
                    messages.append(step_message(event, self._check))
            if self._track and self._room:  # listeners first: what the speaker is told is in the room
                self._track.publish(self._writer)
                if any(isinstance(event, SentenceEnd) for event in events):
                    await self._room.force()
            if messages:
                yield messages
        if self._seen > self._total["steps"]:
            told = f"the whole text has {self._total['steps']} steps, but resume.seen is {self._seen}"
            raise Refusal("diverged", f"{told}; start again without 'resume'")
        if self._track:
            self._track.finish()
        yield [self._final()]

    async def events(self) -> AsyncIterator[list[Step | Tail | SentenceEnd]]:
        """Every step, and a SentenceEnd after the last step of a sentence; tails too, if the client asked for them."""
        draining = False
        while not draining and (some := await self.session.some(TOGETHER)):
            steps = [each for each in some if isinstance(each, Step)]
            if steps and self.session.is_speech:
                self._spoke = time.monotonic()
                self._pressure.add(self.session.lag(steps[-1]))
            self._open = self._open or bool(steps)
            events: list[Step | Tail | SentenceEnd] = []
            for made in some:
                if isinstance(made, Tail):
                    events.append(made)
                    continue
                step = replace(made, lag=round(1000 * self.session.lag(made)))  # it has waited since it was made
                events.append(step)
                self._steps.append(step)
                if step.action is Action.READ:
                    continue
                if step.text:
                    shown, total, most = self._lags
                    self._lags = [shown + 1, total + (step.lag or 0), max(most, step.lag or 0)]
                if step.end:
                    events.append(self._close_sentence())
                    if draining := self.warned.done():
                        break
            yield events
            self._open = bool(self._steps)
            self._sent.set()
        if draining or self.session.closed:
            raise Refusal("draining", "this server is stopping; connect again and resume")

    @property
    def behind(self) -> float | None:
        """Seconds that the words of a speaker wait now; None in silence, and for text faster than speech, which waits for itself."""
        waiting, quiet = self.session.waiting, time.monotonic() - self._spoke > QUIET
        if not self.session.is_speech or (quiet and not waiting):
            return None
        return max(waiting, self._pressure.seconds)

    def resume_message(self, point: ResumePoint) -> Message:
        """Where a client can continue, signed."""
        return self._marks.sign(resume_message(self.model.identity, point) | {"session": self.name})

    def latency(self) -> dict[str, float]:
        """AL, AP, DAL and CW, averaged over sentences."""
        return {name: round(value / self._scored, 3) for name, value in self._scores.items()}

    def _close_sentence(self) -> SentenceEnd:
        last, translation = self._steps[-1], Translation.of(self._steps)
        delays, words = translation.delays, len(translation.source)
        scores = latency.paper(delays, words) if delays and words else {}
        if scores:
            self._scored += 1
            self._scores = {name: self._scores.get(name, 0.0) + value for name, value in scores.items()}
        self._steps, self.resume = [], last.resume or self.resume
        self._total["steps"] += len(translation.steps)
        self._total["sentences"] = last.sentence + 1
        self._total["words"] += words
        self._total["written"] += len(delays)
        return SentenceEnd(translation, delays, scores, self.resume)

    def _is_new(self, step: Step) -> bool:
        """Whether the client has not seen this step; raises if it saw a different one in its place."""
        assert step.n is not None, "a session numbers its steps"
        self._check, self._place = checked(self._check, step), step.n + 1
        if self._expected and step.n == self._seen - 1 and f"{self._check:08x}" != self._expected:
            told = "this server translates the open sentence differently than before; start again without 'resume'"
            raise Refusal("diverged", told)
        return step.n >= self._seen

    def _sentence(self, end: SentenceEnd) -> Message:
        scores = {name: round(value, 3) for name, value in end.latency.items()}
        return {
            "type": "sentence",
            "sentence": end.translation.steps[-1].sentence,
            "words": len(end.translation.source),
            "written": len(end.delays),
            **({"latency": scores} if scores else {}),
            "resume": self.resume_message(end.resume),
        }

    def _final(self) -> Message:
        shown, total, most = self._lags
        lag = {"mean": round(total / shown, 1), "max": most} if shown else {}
        seconds = round(time.monotonic() - self._began, 3)
        return {"type": "final", **self._total, "seconds": seconds, "latency": self.latency(), "lag": lag}

    # stop

    async def drain(self, limit: float) -> None:
        """Wait up to `limit` seconds until the open sentence is finished, then close."""
        if not self.warned.done():
            self.warned.set_result(None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while self._open:
                    self._sent.clear()
                    await self._sent.wait()
        self.session.close()

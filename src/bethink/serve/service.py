"""What the socket and the HTTP side share: the models, the limits, who is here, and how it all begins and ends."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

from bethink.engine_thread import Counters
from bethink.errors import BethinkError
from bethink.serve.auth import Access, RateLimiter
from bethink.serve.limits import Limits, Pressure
from bethink.serve.metrics import Engines, Metrics
from bethink.serve.models import Model
from bethink.serve.protocol import Refusal, Start
from bethink.serve.stream_handler import StreamHandler

PROBE = "a ."  # a text that every model can translate somehow
PROBE_SECONDS, PROBE_EVERY = 5.0, 2.0
NOTICED = 0.05  # of the lag that is allowed: from there on the engine has more to do than it can do at once
COMFORT = 0.85  # of what would take all of the engine's time


@dataclass
class Service:
    models: Sequence[Model]  # the first is the default
    limits: Limits = field(default_factory=Limits)
    access: Access = field(default_factory=lambda: Access("127.0.0.1"))

    def __post_init__(self) -> None:
        self.metrics = Metrics()
        self.pressure = Pressure()
        self.rate = RateLimiter(self.limits.rate, self.limits.burst)
        self.streams: set[StreamHandler] = set()
        self.sockets = 0
        self.draining = False
        self._health = ("failing", 0.0)
        self._probing = asyncio.Lock()
        self.metrics.pressure.set_function(lambda: self.pressure.seconds)
        self.metrics.streams.set_function(lambda: len(self.streams))
        self.metrics.sockets.set_function(lambda: self.sockets)
        self.metrics.registry.register(Engines(self.counters))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for model in self.models:
                await stack.enter_async_context(model.live)
            try:
                yield
            finally:
                for handler in list(self.streams):
                    handler.session.close()

    def counters(self) -> dict[str, Counters]:
        with contextlib.suppress(BethinkError):  # not running yet, or no more
            return {model.name: model.live.counters() for model in self.models}
        return {}

    # coming in

    def admit(self, address: str) -> None:
        """Refuses whoever comes too often."""
        if not self.rate.allows(address):
            raise Refusal("rate", f"too many requests from this address; it may make {self.limits.rate:g} per second")

    def model(self, name: str) -> Model:
        """By name alone: no name reaches a file that was not chosen when the server was started."""
        for model in self.models:
            if name in ("", model.name):
                return model
        there = ", ".join(model.name for model in self.models)
        raise Refusal("model", f"no model named '{name[:80]}' is served here; there are {there}")

    @contextlib.contextmanager
    def stream(self, start: Start) -> Iterator[StreamHandler]:
        """A place for one more stream, or a refusal; given back at the end."""
        model = self.model(start.model)
        if start.resume and start.resume.model != model.identity:
            told = f"the model '{model.name}' is not the one this stream began with; start anew without 'resume'"
            raise Refusal("changed", told)
        if self.draining:
            raise Refusal("draining", "this server is about to stop; connect again in a moment")
        if len(self.streams) >= self.limits.streams:
            raise Refusal("full", f"all {self.limits.streams} streams of this server are taken; try again later")
        if start.resume is None:  # a client that was here before may come back
            self._check_capacity(model)
        handler = StreamHandler(model, start, self.metrics, self.pressure)
        self.streams.add(handler)
        self.metrics.opened.labels(resumed=str(start.resume is not None).lower()).inc()
        try:
            yield handler
        finally:
            handler.session.close()
            self.streams.discard(handler)

    def _check_capacity(self, model: Model) -> None:
        """Refuses a stream that would make the others wait: when they do already, or soon would."""
        behind, engine = self.pressure.seconds, model.live.counters()
        room = COMFORT * engine.capacity
        if behind > self.limits.lag:
            raise Refusal("full", f"this server is {behind:.1f} seconds behind; try again later")
        if behind > NOTICED * self.limits.lag and engine.sessions >= room:
            raise Refusal("full", f"this server can follow {math.ceil(room)} speakers at present; try again later")

    # being well, and ending

    async def health(self) -> str:
        """Whether a translation works now: ready, failing or draining."""
        if self.draining:
            return "draining"
        async with self._probing:
            status, since = self._health
            if status != "ready" or time.monotonic() - since > PROBE_EVERY:
                self._health = (await self._probe(), time.monotonic())
        return self._health[0]

    async def _probe(self) -> str:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                for model in self.models:
                    await model.live.translate(PROBE)
        except (BethinkError, TimeoutError):
            return "failing"
        return "ready"

    async def drain(self) -> None:
        """No new streams; those here finish their sentence and are told to come back."""
        self.draining = True
        waiting = [asyncio.create_task(handler.drain(self.limits.drain)) for handler in list(self.streams)]
        if waiting:
            await asyncio.wait(waiting)

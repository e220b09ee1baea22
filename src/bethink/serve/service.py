"""What WebSocket and HTTP share: models, limits, open streams, health, start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

from bethink.engine_thread import Counters
from bethink.errors import BethinkError
from bethink.serve.auth import Access, Marks, RateLimiter, network
from bethink.serve.limits import Limits, Pressure
from bethink.serve.metrics import Engines, Metrics
from bethink.serve.models import Model
from bethink.serve.protocol import Refusal, Start
from bethink.serve.rooms import Rooms
from bethink.serve.stream_handler import StreamHandler

PROBE = "a ."  # a text that every model can translate
PROBE_SECONDS, PROBE_EVERY = 5.0, 2.0
NOTICED = 0.05  # share of the allowed lag; above it the engine has more to do than it can do at once
TICK = 0.25  # seconds between two looks at the event loop
COMFORT = 0.85  # share of the engine's capacity that may be used


@dataclass
class Service:
    models: Sequence[Model]  # the first is the default
    limits: Limits = field(default_factory=Limits)
    access: Access = field(default_factory=lambda: Access("127.0.0.1"))
    marks: Marks = field(default_factory=Marks)
    rooms: Rooms | None = field(default_factory=Rooms)  # in a cluster, only one replica has them

    def __post_init__(self) -> None:
        self.metrics = Metrics()
        self._late = Pressure()  # how late the event loop is
        self.rate = RateLimiter(self.limits.rate, self.limits.burst)
        self.streams: set[StreamHandler] = set()
        self.sockets = 0
        self.draining = False
        self._health = ("failing", 0.0)
        self._probing = asyncio.Lock()
        self.metrics.pressure.set_function(lambda: self.behind)
        self.metrics.streams.set_function(lambda: len(self.streams))
        self.metrics.sockets.set_function(lambda: self.sockets)
        self.metrics.rooms.set_function(lambda: len(self.rooms or ()))
        self.metrics.listeners.set_function(lambda: self.rooms.listeners if self.rooms else 0)
        self.metrics.registry.register(Engines(self.counters))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            if self.rooms is not None:
                await stack.enter_async_context(self.rooms.running())
            for model in self.models:
                await stack.enter_async_context(model.live)
            watching = asyncio.create_task(self._watch())
            try:
                yield
            finally:
                watching.cancel()
                for handler in list(self.streams):
                    handler.session.close()

    async def _watch(self) -> None:
        """Measure how late the event loop is: what arrives meanwhile waits unseen."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(TICK)
            self._late.add(time.monotonic() - began - TICK)

    @property
    def behind(self) -> float:
        """Seconds that words wait now: the median over the streams of those who speak, so that one odd stream does not count."""
        waiting = [lag for handler in list(self.streams) if (lag := handler.behind) is not None]
        return self._late.seconds + (statistics.median(waiting) if waiting else 0.0)

    def counters(self) -> dict[str, Counters]:
        with contextlib.suppress(BethinkError):  # not running
            return {model.name: model.live.counters() for model in self.models}
        return {}

    # admission

    def admit(self, address: str) -> None:
        """Refuse an address that sends too many requests."""
        if not self.rate.allows(address):
            raise Refusal("rate", f"too many requests from this address; it may make {self.limits.rate:g} per second")

    @property
    def open_rooms(self) -> Rooms:
        if self.rooms is None:
            told = "this replica has no rooms; in a cluster they are an application of their own, at /v1/rooms"
            raise Refusal("room", told)
        return self.rooms

    def model(self, name: str) -> Model:
        """A model by its name. Only models loaded at start can be named, so no name can reach a file."""
        for model in self.models:
            if name in ("", model.name):
                return model
        there = ", ".join(model.name for model in self.models)
        raise Refusal("model", f"no model named '{name[:80]}' is served here; there are {there}")

    @contextlib.contextmanager
    def stream(self, start: Start, address: str = "") -> Iterator[StreamHandler]:
        """Open a stream, or refuse it; it is closed at the end of the block."""
        room = self.open_rooms.find_key("speaker", start.room) if start.room else None
        model = self.model(start.model or (next(iter(room.tracks)) if room else ""))
        if start.resume and start.resume.model != model.identity:
            told = f"the model '{model.name}' has changed since this stream began; start again without 'resume'"
            raise Refusal("changed", told)
        if self.draining:
            raise Refusal("draining", "this server is stopping; connect again in a moment")
        if len(self.streams) >= self.limits.streams:
            raise Refusal("full", f"all {self.limits.streams} streams of this server are taken; try again later")
        self._check_share(address := network(address))
        name = self._session_of(start)
        if name is None:
            self._check_capacity(model)
        name = name or secrets.token_hex(8)
        handler = StreamHandler(model, start, self.metrics, room, name=name, address=address, marks=self.marks)
        self.streams.add(handler)
        self.metrics.opened.labels(resumed=str(start.resume is not None).lower()).inc()
        try:
            yield handler
        finally:
            handler.session.close()
            self.streams.discard(handler)

    def _session_of(self, start: Start) -> str | None:
        """The session that a client continues; it is always let in, but only once, and only with what this server signed."""
        resume = start.resume
        if resume is None or not self.marks.accepts(resume.to_message()):
            return None
        return None if any(handler.name == resume.session for handler in self.streams) else resume.session

    def _check_share(self, address: str) -> None:
        """Refuse an address that has many streams, or more than are left for all others."""
        most, held = self.limits.address, sum(handler.address == address for handler in self.streams)
        left = self.limits.streams - len(self.streams)
        if held >= most or (most < self.limits.streams and held > left):
            told = f"{held} streams are open from this address, which is its share; close one, or raise --max-address"
            raise Refusal("full", told)

    def _check_capacity(self, model: Model) -> None:
        """Refuse a stream if others already wait too long, or would with one stream more."""
        behind, engine = self.behind, model.live.counters()
        room = COMFORT * engine.capacity
        if behind > self.limits.lag:
            raise Refusal("full", f"this server is {behind:.1f} seconds behind; try again later")
        if behind > NOTICED * self.limits.lag and engine.sessions >= room:
            raise Refusal("full", f"this server can follow {math.ceil(room)} speakers at present; try again later")

    # health and stop

    async def health(self) -> str:
        """`ready` if a test translation works now, else `failing` or `draining`."""
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
        """Stop: refuse new streams; open ones finish their sentence and are told to reconnect."""
        self.draining = True
        waiting = [asyncio.create_task(handler.drain(self.limits.drain)) for handler in list(self.streams)]
        if waiting:
            await asyncio.wait(waiting)
        if self.rooms is not None:
            self.rooms.close()

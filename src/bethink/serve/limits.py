"""All limits of the server, and an average that follows how far it is behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from bethink.errors import UsageError


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes or UTF-16 units, times in seconds."""

    streams: int = 512  # open at once; another one is refused
    address: int = 64  # of these, from one address
    message: int = 65_536  # bytes in one frame of a socket
    body: int = 262_144  # bytes in one HTTP request
    text: int = 4_000_000  # units of text on one connection; enough for days of speech
    idle: float = 600.0  # seconds without a message from the client
    first: float = 120.0  # seconds from `start` to the first message after it
    start: float = 10.0  # seconds from the handshake to `start`, or from the connection to a complete request
    slow: float = 20.0  # seconds that the client may take to accept one message
    rate: float = 10.0  # new streams and requests per second and address, on average
    burst: int = 100  # how many of these may come at once
    lag: float = 1.0  # seconds the engine may be behind before new streams are refused
    drain: float = 10.0  # seconds for the sentences in flight when the server stops
    rooms: int = 50  # open at once
    listeners: int = 2000  # in all rooms together
    history: int = 8_000_000  # bytes of a room's log; enough for a day of speech
    expiry: float = 86_400.0  # seconds that a room is kept after its last word

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value <= 0:
                raise UsageError(f"the limit '{name}' is {value}, but must be above 0")

    @property
    def sockets(self) -> int:
        """Connections open at once; includes those that are being refused or have not sent `start`."""
        return 2 * self.streams + 64


class Pressure:
    """How many seconds something waits: an exponential average with a half-life of 2 seconds. It falls to 0 by itself in silence."""

    def __init__(self, *, half_life: float = 2.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._half_life, self._clock = half_life, clock
        self._value, self._then = 0.0, clock()

    def add(self, waited: float) -> None:
        now = self._clock()
        kept = self._kept(now)
        self._value, self._then = kept * self._value + (1 - kept) * waited, now

    @property
    def seconds(self) -> float:
        return self._value * self._kept(self._clock())

    def _kept(self, now: float) -> float:
        share: float = 0.5 ** ((now - self._then) / self._half_life)
        return share

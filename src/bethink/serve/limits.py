"""All limits of the server, and an average that follows how far it is behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bethink.errors import UsageError


def _flag(default: Any, about: str) -> Any:
    """A limit with a flag of `bethink serve`, and what its help says."""
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes or UTF-16 units, times in seconds."""

    streams: int = _flag(512, "streams open at once; more are refused")
    address: int = _flag(64, "of these, from one address; behind a proxy see --proxy")
    message: int = _flag(65_536, "bytes in one message of a socket")
    body: int = _flag(262_144, "bytes in one HTTP request")
    text: int = _flag(4_000_000, "characters of text on one connection")  # enough for days of speech
    start: float = 10.0  # seconds from the handshake to `start`, or from the connection to a complete request
    first: float = _flag(120.0, "seconds a client may take to send its first text")
    idle: float = _flag(600.0, "seconds a client may send nothing")
    slow: float = _flag(20.0, "seconds a client may read nothing")
    rate: float = _flag(10.0, "new streams and requests per second from one address")
    burst: int = _flag(100, "how many of these may come at once")
    lag: float = _flag(1.0, "seconds the engine may be behind before new streams are refused")
    drain: float = _flag(10.0, "seconds to finish open sentences when the server stops")
    rooms: int = _flag(50, "rooms open at once")
    listeners: int = _flag(2000, "listeners in all rooms together")
    history: int = _flag(8_000_000, "bytes of a room's text, with its times")  # enough for a day of speech
    expiry: float = _flag(86_400.0, "seconds a room is kept after its last word")

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

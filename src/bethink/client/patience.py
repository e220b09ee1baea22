"""How long the clients keep trying: after a failure they wait, each time longer, and after a while they give up."""

from __future__ import annotations

import logging
import random
import time

from bethink.errors import BethinkError

LOG = logging.getLogger("bethink.client")
FIRST_WAIT, LONGEST_WAIT = 0.5, 10.0  # seconds between attempts


class ConnectionLost(BethinkError):
    """The server could not be reached within the client's `patience`."""


class Patience:
    def __init__(self, seconds: float, lost: str) -> None:
        """`lost` begins the error's message, as in `ws://… was out of reach`."""
        self._seconds, self._lost = seconds, lost
        self.renew()

    def renew(self) -> None:
        """Begin anew, because an attempt succeeded."""
        self._wait, self._since = FIRST_WAIT, time.monotonic()

    def after(self, trouble: object, warning: str = "") -> float:
        """How many seconds to wait after an attempt that failed; raises ConnectionLost when it is time to give up."""
        if time.monotonic() - self._since > self._seconds:
            raise ConnectionLost(f"{self._lost} for {self._seconds:g} seconds: {trouble}") from None
        if warning and self._wait == FIRST_WAIT:
            LOG.warning("%s; trying again for up to %g seconds", warning, self._seconds)
        wait, self._wait = self._wait, min(2 * self._wait, LONGEST_WAIT)
        return min(wait * random.uniform(0.75, 1.25), self._seconds)

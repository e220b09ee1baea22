"""Ports for servers that are started, killed and started again."""

from __future__ import annotations

import random
import socket

BELOW = range(20_000, 30_000)  # the system itself hands out higher ones, and could give ours to another program


def free_port() -> int:
    """One at which nobody listens."""
    for port in random.SystemRandom().sample(BELOW, len(BELOW)):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError(f"all ports from {BELOW.start} to {BELOW.stop} are taken")

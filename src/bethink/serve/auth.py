"""Access: rate limit by address, allowed host names and origins, the token, and signatures of resume points."""

from __future__ import annotations

import contextlib
import functools
import hmac
import ipaddress
import json
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from bethink.errors import DataError, UsageError

TOKEN, SECRET = "BETHINK_TOKEN", "BETHINK_SECRET"
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class RateLimiter:
    """A token bucket for each address; the addresses unused for longest are forgotten first."""

    def __init__(
        self, rate: float, burst: int, *, addresses: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._most, self._clock = rate, burst, addresses, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # permits left, and when

    def allows(self, address: str) -> bool:
        """Whether one more request is allowed; counts it if so."""
        now, key = self._clock(), network(address)
        left, then = self._buckets.pop(key, (float(self._burst), now))
        left = min(float(self._burst), left + (now - then) * self._rate)
        self._buckets[key] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return left >= 1


def network(address: str) -> str:
    """The address, or the /64 network of an IPv6 address: one customer has 2^64 addresses in it."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))


class Marks:
    """Signs resume points, so that only a client that was served before is let in as such."""

    def __init__(self, secret: str | None = None) -> None:
        self._secret = (secret or secrets.token_hex(32)).encode()

    def sign(self, point: Mapping[str, object]) -> dict[str, object]:
        """The point, with its signature in the field `mark`."""
        unsigned = {name: value for name, value in point.items() if name != "mark"}
        text = json.dumps(unsigned, sort_keys=True)
        return unsigned | {"mark": hmac.new(self._secret, text.encode(), "sha256").hexdigest()[:32]}

    def accepts(self, point: Mapping[str, object]) -> bool:
        mark, expected = str(point.get("mark", "")), str(self.sign(point)["mark"])
        return hmac.compare_digest(mark.encode("utf-8", "replace"), expected.encode())


class Access:
    """Checks the host name, the origin and the token of a request."""

    def __init__(self, host: str, origins: Iterable[str] = (), token: str | None = None) -> None:
        self.origins = frozenset(_origin(origin) for origin in origins)
        self._names = {_split(origin).hostname for origin in self.origins}
        self.any_host = not is_local(host) and not self.origins  # it was told no name, so it answers to every one
        self.needs_token = token is not None
        self._token = token

    def allows_host(self, host: str) -> bool:
        """Whether the Host header names this server; another name may be a DNS rebinding attack."""
        return self.any_host or _split(f"//{host}").hostname in LOCAL | self._names

    def allows_origin(self, origin: str | None, host: str) -> bool:
        """Whether a page of this origin may use the server; programs other than browsers send no origin."""
        if origin is None or origin in self.origins:
            return True
        asked = _split(origin)
        return asked.scheme in ("http", "https") and asked.netloc.lower() == host.lower() and self.allows_host(host)

    def allows_token(self, token: str) -> bool:
        """Compares in constant time, so that timing tells nothing about the token."""
        return self._token is None or hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode())


def read_token(file: str | None) -> str | None:
    """The token from a file or the environment; not from the command line, which every user of the machine can read."""
    if file is None:
        token, where = os.environ.get(TOKEN), f"the variable {TOKEN}"
    else:
        try:
            token, where = Path(file).read_text(encoding="utf-8"), file
        except UnicodeDecodeError:
            raise DataError(f"{file} is not a token file: it is not UTF-8 text") from None
    if token is None:
        return None
    token = token.strip()
    if len(token) < 8 or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"the token in {where} must be one word of at least 8 plain characters")
    return token


def read_secret(file: str | None) -> str | None:
    """The secret for resume points, from a file, which is made if there is none yet, or from the environment."""
    if file is None:
        return os.environ.get(SECRET) or None
    only_for_me = functools.partial(os.open, mode=0o600)
    with contextlib.suppress(FileExistsError), open(file, "x", opener=only_for_me) as made:
        made.write(secrets.token_hex(32) + "\n")
    secret = Path(file).read_text(encoding="utf-8", errors="replace").strip()
    if len(secret) < 32:
        raise UsageError(
            f"the secret in {file} has {len(secret)} characters, but must have 32 or more; delete the file for a new one"
        )
    return secret


def bearer(header: str | None) -> str:
    scheme, _, token = (header or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def is_local(host: str) -> bool:
    if host in LOCAL:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _origin(text: str) -> str:
    parts = _split(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise UsageError(f"'{text}' is not an origin; it has a scheme and a host, as in https://live.example.org")
    return f"{parts.scheme}://{parts.netloc}".lower()


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")

"""Runs the application in this process: listening socket, signals, log."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from types import FrameType

import uvicorn

from bethink.errors import UsageError
from bethink.serve.app import create_app
from bethink.serve.service import Service
from bethink.serve.uvicorn_protocols import DeadlineHTTP, LimitedWebSocket

LOG = logging.getLogger("bethink.serve")
BACKLOG = 2048  # connections that the system keeps waiting while we are busy
BUFFER = 131_072  # bytes that the system may buffer for one connection, each way
DEAD = 30  # seconds after which the system gives up a peer that does not answer
PING = 20.0  # seconds between pings, so that proxies keep the connection open


class Server(uvicorn.Server):
    """Uvicorn, but at the first signal open sentences are finished before connections are closed."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.started and not self._service.draining and sig in (signal.SIGTERM, signal.SIGINT):
            self._loop.call_soon_threadsafe(self.drain)
        else:
            self.should_exit = True

    def drain(self) -> None:
        """Begin to stop; call it in the event loop."""
        if self._draining is None:
            LOG.info("stopping: %d streams finish their sentence", len(self._service.streams))
            self._draining = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        await self._service.drain()
        await asyncio.sleep(0.1)  # for the last frames
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """The listening socket; port 0 takes a free port. Also raises the limit on open files."""
    _raise_file_limit()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()  # all addresses of the machine, those of IPv4 too
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        number = error.errno or 0  # below 0: the host name is unknown
        reason = (error.strerror or str(error)).partition(" (while")[0].lower()
        flag = "--host" if number < 0 or number == errno.EADDRNOTAVAIL else "--port"
        raise UsageError(f"cannot listen on {host} port {port}: {reason}; choose another with {flag}") from None
    # Accepted connections inherit these: a slow peer takes little memory, and one that vanished is closed soon.
    for option, value in ((socket.SO_KEEPALIVE, 1), (socket.SO_SNDBUF, BUFFER), (socket.SO_RCVBUF, BUFFER)):
        listening.setsockopt(socket.SOL_SOCKET, option, value)
    patience = {"TCP_KEEPIDLE": DEAD, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": DEAD * 1000}
    for name, value in patience.items():
        if hasattr(socket, name):
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return listening


def server(service: Service, *, proxy: str | None = None, prefix: str = "") -> Server:
    """`proxy`: the address of a reverse proxy whose X-Forwarded-For is trusted; `prefix`: the path that it takes away."""
    config = uvicorn.Config(
        create_app(service),
        http=type("HTTP", (DeadlineHTTP,), {"deadline": service.limits.start}),
        ws=LimitedWebSocket,
        ws_max_size=service.limits.message,
        ws_ping_interval=PING,
        ws_ping_timeout=None,  # a client that has to wait cannot answer; the system finds dead connections
        ws_per_message_deflate=False,
        log_config=None,
        access_log=False,
        server_header=False,
        root_path=prefix,
        proxy_headers=proxy is not None,
        forwarded_allow_ips=proxy,
        timeout_graceful_shutdown=5,
        timeout_keep_alive=10,
    )
    return Server(config, service)


class SafeFormatter(logging.Formatter):
    """Indents all lines of a record but the first, and escapes control characters: no text of a client can pass for a record."""

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record).split("\n")
        return "\n    ".join("".join(c if c.isprintable() else repr(c)[1:-1] for c in line) for line in lines)


def set_up_log(level: int) -> None:
    """Log one line per event to standard error; users' text is never logged."""
    handler = logging.StreamHandler()
    handler.setFormatter(SafeFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    for name in ("uvicorn.error", "uvicorn.access", "websockets"):
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of every client that leaves early
    logging.getLogger("uvicorn.error").addFilter(_is_ours_to_know)


def _is_ours_to_know(record: logging.LogRecord) -> bool:
    """Leave out errors caused by malformed requests: clients could fill the disk with tracebacks."""
    harmless = ("Invalid UTF-8", "Invalid HTTP request", "Unsupported upgrade", "ASGI callable returned without")
    return not record.getMessage().startswith(harmless)


def _raise_file_limit() -> None:
    """Every connection is an open file, and many systems allow only about a thousand at first."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536) if hard > 0 else 65_536, hard))

"""A stand-in for the caption addresses of Zoom and YouTube: it holds clients to the protocol and fails on purpose.

Numbers must rise by one. A number that comes again is a repetition: it must have the same text, and is not shown again.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class CaptionService:
    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        """`faults`: what happens to the posts in turn: `` is an answer, `503` a refusal, `lost` an answer that never arrives."""
        self.shown: list[str] = []  # bodies, in order
        self.wrong: list[str] = []  # breaches of the protocol
        self.posts = 0
        self.queries: list[dict[str, list[str]]] = []
        self._faults = itertools.cycle(faults or ("",))
        self._lock = threading.Lock()

    def post(self, path: str, kind: str, body: str) -> int:
        """Take a post; returns the status, or 0 for an answer that is lost."""
        with self._lock:
            self.posts += 1
            fault = next(self._faults)
            if fault == "503":
                return 503
            query = parse_qs(urlsplit(path).query)
            self.queries.append(query)
            seq = int(query["seq"][0])
            if not kind.startswith("text/plain"):
                self.wrong.append(f"the type is {kind}")
            if seq == len(self.shown) + 1:
                self.shown.append(body)
            elif not (seq == len(self.shown) and body == self.shown[-1]):
                self.wrong.append(f"number {seq} after {len(self.shown)} with {body!r}")
            return 0 if fault == "lost" else 200

    @property
    def last(self) -> int:
        return len(self.shown)


@contextlib.contextmanager
def caption_service(*faults: str) -> Iterator[tuple[CaptionService, str]]:
    """A running service and its address."""
    made = CaptionService(faults)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if status := made.post(self.path, self.headers["Content-Type"], body):
                self.send_response(status)
                self.end_headers()
            else:
                self.close_connection = True

        def do_GET(self) -> None:
            assert urlsplit(self.path).path == "/closedcaption/seq"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(str(made.last).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield made, f"http://127.0.0.1:{server.server_port}/closedcaption?id=1&signature=x"
        finally:
            server.shutdown()
            thread.join()

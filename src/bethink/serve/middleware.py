"""ASGI middleware for every request: access, rate and size limits, and security headers of every answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bethink.serve.auth import bearer
from bethink.serve.protocol import PATH, ROOM_PATH, Refusal
from bethink.serve.service import Service

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
ROOMS = "/v1/rooms/"
STREAM = re.compile(ROOM_PATH.format(name="[^/]+"))
WATCHED = ("/health", "/metrics")  # asked by load balancers and Prometheus, under whatever name they know
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def answer(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The form of every error answer."""
    return JSONResponse({"error": {"code": code, "message": message}}, status_code=status, headers=headers)


def refuse(refusal: Refusal) -> JSONResponse:
    status = refusal.status
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {"Retry-After": "1"} if status in (429, 503) else {}
    return answer(status, refusal.code, str(refusal), headers)


class AccessMiddleware:
    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        try:
            self._check(scope)
        except Refusal as refusal:
            self._service.metrics.rejects.labels(reason=refusal.code).inc()
            return await refuse(refusal)(scope, receive, _with_headers(send))
        if scope["type"] == "http":
            receive, send = self._limited(receive), _with_headers(send)
        return await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers, access = Headers(scope=scope), self._service.access
        host, path = headers.get("host", ""), scope["path"].removeprefix(scope.get("root_path", ""))
        watched = scope["type"] == "http" and path in WATCHED and scope["method"] in ("GET", "HEAD")
        if not (watched or access.allows_host(host)):
            raise Refusal("origin", "this server does not answer to that host name; --origin can add it")
        asks = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        if asks and not access.allows_origin(headers.get("origin"), host):
            raise Refusal("origin", "pages of other sites may not use this server; --origin can allow one")
        if scope["type"] == "websocket":
            if path != PATH and not STREAM.fullmatch(path):
                raise Refusal("not_found", f"the only WebSockets of this server are {PATH} and {ROOM_PATH}")
            return  # other refusals are sent on the socket, where a browser can read them
        if path.startswith(ROOMS):
            return  # rooms have their own tokens, and only wrong ones count against an address
        if path.startswith(("/v1/", "/metrics")):
            self._service.admit((scope.get("client") or ("",))[0])
        if path.startswith(("/v1/", "/metrics")) and not access.allows_token(bearer(headers.get("authorization"))):
            raise Refusal("unauthorized", "this server requires its token, as in: Authorization: Bearer TOKEN")
        length = headers.get("content-length", "")
        if length.isascii() and length.isdecimal() and int(length) > self._service.limits.body:
            raise Refusal("text", f"a request may have {self._service.limits.body} bytes; this one has more")

    def _limited(self, receive: Receive) -> Receive:
        """Limit size and time of a body, also if it gives no length or arrives very slowly."""
        limits = self._service.limits
        deadline = asyncio.get_running_loop().time() + limits.start
        size, complete = 0, False

        async def limited() -> Message:
            nonlocal size, complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the request was not complete within {limits.start:g} seconds") from None
            size += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if size > limits.body:
                raise HTTPException(413, f"a request may have {limits.body} bytes; this one has more")
            return message

        return limited


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending

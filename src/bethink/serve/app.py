"""The FastAPI application: routes, WebSocket, page and error handlers."""

from __future__ import annotations

import contextlib
import mimetypes
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from bethink import __version__
from bethink.serve.http import routes
from bethink.serve.middleware import AccessMiddleware, answer, refuse
from bethink.serve.protocol import PATH, ROOM_PATH, Refusal
from bethink.serve.room_http import room_routes
from bethink.serve.service import Service
from bethink.serve.socket import serve_socket

PAGE = Path(__file__).parent / "page"
ABOUT = "The HTTP side of bethink. Live text goes through the WebSocket at /v1/stream, described in docs/protocol.md."
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2"}


class Page(StaticFiles):
    """The files of the page. Browsers check each time whether a file changed, so nobody sees an old page."""

    def __init__(self, directory: Path, routes: Sequence[BaseRoute]) -> None:
        """`routes`: those of the application, which get the requests that they accept before this sees them."""
        super().__init__(directory=directory, html=True)
        self._routes = [route for route in routes if isinstance(route, Route)]

    async def get_response(self, path: str, scope: Scope) -> Response:
        asked = [route for route in self._routes if route.matches(scope)[0] is Match.PARTIAL]
        if asked:  # a route of this path exists, so the method was wrong
            allowed = ", ".join(method for route in asked for method in route.methods or ())
            raise HTTPException(405, f"this path accepts {allowed} only", {"Allow": allowed})
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


def create_app(service: Service, page: Path = PAGE) -> FastAPI:
    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    # FastAPI's own documentation pages load scripts from other sites, so they are off.
    app = FastAPI(
        title="bethink", version=__version__, description=ABOUT, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.add_middleware(AccessMiddleware, service=service)
    if service.access.origins:  # outside: a browser asks first, without the token, whether it may ask
        allowed: dict[str, Any] = {
            "allow_methods": ["GET", "POST", "DELETE"],
            "allow_headers": ["Authorization", "Content-Type"],
        }
        app.add_middleware(CORSMiddleware, allow_origins=sorted(service.access.origins), **allowed)
    routers = routes(service), room_routes(service)
    for router in routers:
        app.include_router(router)
    _add_errors(app, service)

    @app.websocket(PATH)
    @app.websocket(ROOM_PATH)
    async def stream(socket: WebSocket) -> None:
        await serve_socket(socket, service)

    for suffix, kind in TYPES.items():  # the system's table differs between machines
        mimetypes.add_type(kind, suffix)
    app.mount("/", Page(page, [route for router in routers for route in router.routes]))
    return app


def _add_errors(app: FastAPI, service: Service) -> None:
    """All errors have the same JSON form."""

    @app.exception_handler(Refusal)
    async def refused(_: Request, refusal: Refusal) -> Response:
        service.metrics.rejects.labels(reason=refusal.code).inc()
        return refuse(refusal)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        found = error.errors()[0]
        where = ".".join(str(part) for part in found["loc"] if part != "body")
        return answer(422, "invalid", f"{where or 'the body'}: {found['msg']}")

    @app.exception_handler(HTTPException)
    async def failed(_: Request, error: HTTPException) -> Response:
        code = {404: "not_found", 405: "method", 408: "idle", 413: "text"}.get(error.status_code, "invalid")
        return answer(error.status_code, code, error.detail, error.headers)

    @app.exception_handler(Exception)
    async def broken(_: Request, __: Exception) -> Response:
        return answer(500, "internal", "the server failed; try again")

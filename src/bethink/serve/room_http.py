"""The HTTP routes of rooms: open one, listen to it as server-sent events, its captions as a file, its QR code, close it."""

from __future__ import annotations

import io
import random
from collections.abc import AsyncGenerator
from typing import Annotated, Literal

import segno
from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from bethink.serve.auth import bearer
from bethink.serve.http import EVENTS, REFUSALS, ErrorOut, EventStream
from bethink.serve.protocol import LARGEST, Refusal
from bethink.serve.rooms import Room
from bethink.serve.service import Service
from bethink.serve.track import Track
from bethink.text.captions import FORMATS, cues, written
from bethink.trace import doubtful

ALIVE = 15.0  # seconds between signs of life, so that proxies and listeners know that the connection stands
PAGE = "listen.html"


class RoomOrder(BaseModel, extra="forbid"):
    """A room to open."""

    room: str = Field("", description="Its name; empty means a random one.", max_length=40)
    models: list[Annotated[str, Field(max_length=200)]] = Field(
        [], description="Names from /v1/models, one for each language; empty means the default.", max_length=16
    )


class RoomKeys(BaseModel):
    room: str
    models: list[str]
    speaker: str = Field(description="The key for `room` in the `start` of a stream; keep it to yourself.")
    listener: str = Field(description="The key for listeners.")
    link: str = Field(description="The address of the listeners' page.")
    expiry: float = Field(description="Seconds that the room is kept after its last word.")


class LanguageOut(BaseModel):
    model: str
    source: str
    target: str
    words: int = Field(description="How many there are so far, those of corrections included.")


class RoomOut(BaseModel):
    room: str
    opened: float = Field(description="Seconds since 1970; the times of words count from here.")
    now: int = Field(description="Milliseconds since then.")
    languages: list[LanguageOut]
    listeners: int


Token = Annotated[str, Query(max_length=200, description="The part of the key after the point, or in `Authorization`.")]
ModelName = Annotated[str, Query(max_length=200, description="Empty means the first of the room.")]


ANSWERS = REFUSALS | {409: {"model": ErrorOut}}


def room_routes(service: Service) -> APIRouter:
    router = APIRouter()

    def found(who: str, name: str, token: str, request: Request) -> Room:
        """The room; wrong guesses count against the address."""
        try:
            return service.open_rooms.find(who, name, token or bearer(request.headers.get("authorization")))
        except Refusal:
            service.admit(request.client.host if request.client else "")
            raise

    @router.post("/v1/rooms", summary="Open a room", status_code=201, response_model=RoomKeys, responses=ANSWERS)
    async def open_room(order: RoomOrder, request: Request) -> Response:
        rooms, models = service.open_rooms, [service.model(name).name for name in order.models or [""]]
        if len(set(models)) < len(models):
            raise Refusal("invalid", "'models' names a model twice")
        room, keys = rooms.open(order.room, models, request.client.host if request.client else "")
        await room.force()
        link = f"{request.base_url}{PAGE}#{keys['listener']}"
        body = {"room": room.name, "models": models, **keys, "link": link, "expiry": rooms.limits.expiry}
        return JSONResponse(body, status_code=201, headers={"Cache-Control": "no-store"})

    @router.get("/v1/rooms/{name}", summary="A room's languages", response_model=RoomOut, responses=ANSWERS)
    async def room(name: str, request: Request, token: Token = "") -> Response:
        there = found("listener", name, token, request)
        about = {model.name: model.translator.about for model in service.models}
        languages = [
            {
                "model": name,
                "source": str(about.get(name, {}).get("source", "")),
                "target": str(about.get(name, {}).get("target", "")),
                "words": sum(sentence.count for sentence in track.sentences),
            }
            for name, track in there.tracks.items()
        ]
        times = {"opened": there.opened, "now": there.now}
        body = {"room": there.name, **times, "languages": languages, "listeners": there.listeners}
        return JSONResponse(body, headers={"Cache-Control": "no-store"})

    @router.delete("/v1/rooms/{name}", summary="Close a room and delete its text", status_code=204, responses=ANSWERS)
    async def close(name: str, request: Request, token: Token = "") -> Response:
        service.open_rooms.remove(found("speaker", name, token, request))
        return Response(status_code=204)

    @router.get(
        "/v1/rooms/{name}/events",
        summary="The words of a room as they are written",
        responses=ANSWERS | {200: {"content": {EVENTS: {"schema": {"type": "string"}}}}},
    )
    async def events(
        name: str,
        request: Request,
        token: Token = "",
        model: ModelName = "",
        after: Annotated[int, Query(ge=-1, le=LARGEST, description="The last event that the listener has.")] = -1,
        last_event_id: Annotated[str, Header(max_length=20)] = "",
    ) -> Response:
        there = found("listener", name, token, request)
        if service.open_rooms.listeners >= service.limits.listeners:
            raise Refusal("full", f"all {service.limits.listeners} places of listeners are taken; try again later")
        last = int(last_event_id) if last_event_id.isascii() and last_event_id.isdecimal() else after
        return EventStream(_words(there, there.track(model), last), service.limits.slow)

    @router.get(
        "/v1/rooms/{name}/captions.{kind}",
        summary="The captions so far",
        responses=ANSWERS | {200: {"content": {each.media_type: {} for each in FORMATS.values()}}},
    )
    async def captions(
        name: str,
        kind: Literal["vtt", "srt"],
        request: Request,
        token: Token = "",
        model: ModelName = "",
        doubt: Annotated[bool, Query(description="Whether WebVTT marks words that were written early.")] = True,
    ) -> Response:
        words = found("listener", name, token, request).track(model).words()
        made = cues((word.at, word.text, last, doubt and doubtful(word.stability)) for word, last in words)
        form = FORMATS[f".{kind}"]
        headers = {"Cache-Control": "no-store", "Content-Disposition": f'inline; filename="{name}.{kind}"'}
        return Response(written(made, form), media_type=form.media_type, headers=headers)

    @router.get(
        "/v1/rooms/{name}/qr.svg",
        summary="The link to the listeners' page as a QR code",
        responses=ANSWERS | {200: {"content": {"image/svg+xml": {}}}},
    )
    async def qr(
        name: str, request: Request, token: Token = "", base: Annotated[str, Query(max_length=300)] = ""
    ) -> Response:
        """`base`: the address of the pages, if a proxy puts them under another one than the server sees."""
        there = found("listener", name, token, request)
        origin = "/".join(base.split("/")[:3])
        if base and not service.access.allows_origin(origin, request.headers.get("host", "")):
            raise Refusal("origin", "'base' is not an address of this server; --origin can add it")
        token = token or bearer(request.headers.get("authorization"))
        link = f"{(base or str(request.base_url)).rstrip('/')}/{PAGE}#{there.name}.{token}"
        out = io.BytesIO()
        segno.make(link, error="m", micro=False).save(
            out, kind="svg", border=4, light="#fff", title=f"Listen to {there.name}", xmldecl=False, omitsize=True
        )
        return Response(out.getvalue(), media_type="image/svg+xml", headers={"Cache-Control": "no-store"})

    return router


async def _words(room: Room, track: Track, after: int) -> AsyncGenerator[bytes]:
    """What one listener gets, until the room ends. It holds no queue: only the number of the last step that was sent."""
    room.listeners += 1
    try:
        yield f"retry: {random.randint(500, 2500)}\n\n".encode()  # after a restart not all come back at once
        told_final = False
        while True:
            chunk, after = track.since(after)
            told_final = told_final and track.final
            if chunk:
                yield chunk
            elif track.final and not told_final:
                told_final = True
                yield b"event: final\ndata: {}\n\n"
            elif track.closed:
                return
            elif not await track.wait(ALIVE):
                yield b"event: alive\ndata: {}\n\n"
    finally:
        room.listeners -= 1

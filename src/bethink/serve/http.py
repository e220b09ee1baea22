"""The HTTP routes: translate a whole text, list the models, health, metrics."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Message as ASGIMessage
from starlette.types import Receive, Scope, Send

from bethink.errors import BethinkError
from bethink.serve.protocol import VERSION, Message, Refusal, Start, dumps
from bethink.serve.service import Service
from bethink.serve.stream_handler import SentenceEnd, StreamHandler

Messages: TypeAlias = AsyncGenerator[Message]

LOG = logging.getLogger("bethink.serve")
EVENTS = "text/event-stream"


class Order(BaseModel, extra="forbid"):
    """A whole text to translate."""

    text: str = Field(description="The text; a line end also ends the sentence.", examples=["te riki nakoru ."])
    model: str = Field("", description="A name from /v1/models; empty means the default.", max_length=200)
    policy: str = Field("", description="Empty means what the model recommends.", max_length=200)


class SentenceOut(BaseModel):
    source: str
    text: str
    delays: list[int] = Field(description="For each target word, the source words heard by then.")
    correction: str | None = Field(None, description="With --repair: what puts right a meaning that was lost.")


class TranslationOut(BaseModel):
    model: str
    policy: str
    text: str
    sentences: list[SentenceOut]
    latency: dict[str, float] = Field(description="AL, AP, DAL and CW in source words.")


class PolicyOut(BaseModel):
    name: str
    title: str
    about: str
    spec: str = Field(description="Its text form, with {name} in place of each value.")
    settings: list[dict[str, Any]] = Field(description="Name, type, default, range and label of each.")


class ModelOut(BaseModel):
    name: str
    policy: str = Field(description="The policy that the model recommends.")
    recommended: str = Field(description="The name of that policy.")
    policies: list[PolicyOut] = Field(description="The policies that the model can serve.")
    reasons: dict[str, str] = Field(description="The codes of reasons and their meaning.")
    explains: bool
    fingerprint: str
    about: dict[str, Any]


class ModelsOut(BaseModel):
    models: list[ModelOut]


class HealthOut(BaseModel):
    status: str = Field(description="ready, failing or draining")
    streams: int


class ErrorOut(BaseModel):
    error: dict[str, str] = Field(description="`code` for programs, `message` for people")


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorOut} for status in (400, 401, 403, 404, 413, 422, 429, 503)
}


def routes(service: Service) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/v1/translate",
        summary="Translate a whole text",
        description=f"With `Accept: {EVENTS}` the messages of the socket come as server-sent events.",
        response_model=TranslationOut,
        responses=REFUSALS | {200: {"content": {EVENTS: {"schema": {"type": "string"}}}}},
    )
    async def translate(order: Order, request: Request) -> Response:
        start, address = Start(order.model, order.policy), request.client.host if request.client else ""
        if EVENTS in request.headers.get("accept", ""):
            messages = _messages(service, start, order.text, address)
            # a refusal must become an HTTP status, so it must come before the stream begins
            first = await anext(messages)
            return EventStream(_events(first, messages), service.limits.slow)
        return JSONResponse(await _whole(service, start, order.text, request.is_disconnected, address))

    @router.head("/v1/models", include_in_schema=False)
    @router.get("/v1/models", summary="The models that are served", response_model=ModelsOut, responses=REFUSALS)
    async def models() -> Response:
        return JSONResponse({"models": [model.describe() for model in service.models]})

    unhealthy: dict[int | str, dict[str, Any]] = {503: {"model": HealthOut}}

    @router.head("/health", include_in_schema=False)
    @router.get("/health", summary="Whether a translation works now", response_model=HealthOut, responses=unhealthy)
    async def health() -> Response:
        status = await service.health()
        body = {"status": status, "streams": len(service.streams)}
        return JSONResponse(body, status_code=200 if status == "ready" else 503, headers={"Cache-Control": "no-store"})

    @router.head("/metrics", include_in_schema=False)
    @router.get("/metrics", summary="Prometheus metrics", response_class=PlainTextResponse, responses=REFUSALS)
    async def metrics() -> Response:
        return Response(service.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


async def _messages(service: Service, start: Start, text: str, address: str) -> Messages:
    """The messages for a whole text: `ready`, steps, sentences, `final`."""
    async with _feeding(service, start, text, address) as handler:
        yield {"type": "ready", "version": VERSION, "model": handler.model.name, "policy": str(handler.policy)}
        async for messages in handler.messages():
            for message in messages:
                yield message


async def _whole(
    service: Service, start: Start, text: str, gone: Callable[[], Awaitable[bool]], address: str = ""
) -> Message:
    """The translation of a whole text in one answer; ends early if the client has left. Steps are not kept."""
    sentences: list[Message] = []
    async with _feeding(service, start, text, address) as handler:
        async for events in handler.events():
            if await gone():
                raise Refusal("gone", "nobody waits for the answer")
            sentences += [_sentence(event) for event in events if isinstance(event, SentenceEnd)]
    return {
        "model": handler.model.name,
        "policy": str(handler.policy),
        "text": " ".join(sentence["text"] for sentence in sentences if sentence["text"]),
        "sentences": sentences,
        "latency": handler.latency(),
    }


def _sentence(end: SentenceEnd) -> Message:
    one, correction = end.translation, end.translation.steps[-1].correction
    told = {"source": " ".join(one.source), "text": one.text, "delays": end.delays}
    return told | ({"correction": correction} if correction else {})


@contextlib.asynccontextmanager
async def _feeding(service: Service, start: Start, text: str, address: str) -> AsyncIterator[StreamHandler]:
    """A stream that a task feeds with the whole text; how it ends is counted in the metrics."""

    async def feed() -> None:
        await handler.session.feed(text)
        await handler.session.finish()

    ended = "gone"
    with service.stream(start, address) as handler:
        feeding = asyncio.create_task(feed())
        try:
            yield handler
            ended = "done"
        except BethinkError as error:
            ended = error.code if isinstance(error, Refusal) else "internal"
            raise
        finally:
            service.metrics.closed.labels(reason=ended).inc()
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


async def _events(first: Message, messages: Messages) -> AsyncGenerator[str]:
    async with contextlib.aclosing(messages):
        yield _event(first)
        try:
            async for message in messages:
                yield _event(message)
        except BethinkError as error:
            if not isinstance(error, Refusal):
                LOG.exception("the engine failed")
                error = Refusal("internal", "the server failed; try again")
            yield _event(error.to_message())


def _event(message: Message) -> str:
    number = f"id: {message['n']}\n" if message["type"] == "step" else ""
    return f"event: {message['type']}\n{number}data: {dumps(message)}\n\n"


class EventStream(StreamingResponse):
    """Server-sent events. A client that needs more than `slow` seconds to take one gets no more; their source is closed at the end."""

    def __init__(self, events: AsyncGenerator[str | bytes], slow: float) -> None:
        super().__init__(events, media_type=EVENTS, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._events, self._slow = events, slow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: ASGIMessage) -> None:
            async with asyncio.timeout(self._slow):
                await send(message)

        async with contextlib.aclosing(self._events):
            try:
                await super().__call__(scope, receive, sending)
            except* (TimeoutError, ClientDisconnect):  # under ASGI 2.4 Starlette makes the second of the first
                pass

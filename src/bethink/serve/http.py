"""The HTTP side: whole texts, the models there are, health, metrics, and a description of all this that needs no script."""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import logging
from collections.abc import AsyncGenerator
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from bethink.errors import BethinkError
from bethink.serve.protocol import VERSION, LiveStep, Message, Refusal, Start, dumps
from bethink.serve.service import Service
from bethink.serve.speaker import Speaker
from bethink.trace import Step, Translation

Messages: TypeAlias = AsyncGenerator[LiveStep | Message]

LOG = logging.getLogger("bethink.serve")
EVENTS = "text/event-stream"
LOOK = 0.25  # seconds between looks whether a client is still there


class Order(BaseModel):
    """A whole text to translate."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Field(description="The text; line ends complete sentences.", examples=["te riki nakoru ."])]
    model: Annotated[str, Field(description="A name from /v1/models; empty means the default.", max_length=200)] = ""
    policy: Annotated[
        str, Field(description="When to speak; empty means what the model recommends.", max_length=200)
    ] = ""


class SentenceOut(BaseModel):
    source: str
    text: str
    delays: Annotated[list[int], Field(description="For each target word, the source words heard by then.")]


class TranslationOut(BaseModel):
    model: str
    policy: str
    text: str
    sentences: list[SentenceOut]
    latency: Annotated[dict[str, float], Field(description="AL, AP, DAL and CW in source words.")]


class PolicyOut(BaseModel):
    name: str
    title: str
    about: str
    spec: Annotated[str, Field(description="How it is asked for, with {name} in place of each value.")]
    settings: Annotated[list[dict[str, Any]], Field(description="Name, type, default, range and label of each.")]


class ModelOut(BaseModel):
    name: str
    policy: Annotated[str, Field(description="What the model recommends.")]
    recommended: Annotated[str, Field(description="The name of that policy.")]
    policies: Annotated[list[PolicyOut], Field(description="What the model can serve.")]
    reasons: Annotated[dict[str, str], Field(description="What the codes of reasons mean.")]
    explains: bool
    fingerprint: str
    about: dict[str, Any]


class ModelsOut(BaseModel):
    models: list[ModelOut]


class HealthOut(BaseModel):
    status: Annotated[str, Field(description="ready, failing or draining")]
    streams: int


class ErrorDetail(BaseModel):
    code: str
    message: str


class ErrorOut(BaseModel):
    error: ErrorDetail


def routes(service: Service) -> APIRouter:
    router = APIRouter()
    refusals: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorOut} for status in (400, 401, 403, 404, 413, 422, 429, 503)
    }

    @router.post(
        "/v1/translate",
        summary="Translate a whole text",
        description=f"With `Accept: {EVENTS}` the messages of the socket come as server-sent events.",
        response_model=TranslationOut,
        responses=refusals | {200: {"content": {EVENTS: {"schema": {"type": "string"}}}}},
    )
    async def translate(order: Order, request: Request) -> Response:
        start = Start(order.model, order.policy)
        if EVENTS in request.headers.get("accept", ""):
            messages = _messages(service, start, order.text)
            first = await anext(messages)  # what is refused is refused with a status, before the stream begins
            return Events(first, messages, service.limits.slow)
        work = asyncio.create_task(_whole(_messages(service, start, order.text)))
        return JSONResponse(await _unless_gone(request, work))

    @router.get("/v1/models", summary="The models that are served", response_model=ModelsOut, responses=refusals)
    async def models() -> Response:
        return JSONResponse({"models": [model.describe() for model in service.models]})

    @router.get(
        "/health",
        summary="Whether a translation works now",
        response_model=HealthOut,
        responses={503: {"model": HealthOut}},
    )
    async def health() -> Response:
        status = await service.health()
        body = {"status": status, "streams": len(service.speakers)}
        return JSONResponse(body, status_code=200 if status == "ready" else 503, headers={"Cache-Control": "no-store"})

    @router.get(
        "/metrics", summary="Metrics in Prometheus' text format", response_class=PlainTextResponse, responses=refusals
    )
    async def metrics() -> Response:
        return Response(service.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


async def _messages(service: Service, start: Start, text: str) -> Messages:
    """A stream whose text is all there: `ready`, steps, sentences, `final`."""
    with service.speaker(start) as speaker:
        yield {"type": "ready", "version": VERSION, "model": speaker.model.name, "policy": str(speaker.policy)}
        speaking = asyncio.create_task(_say(speaker, text))
        ended = "gone"
        try:
            async for messages in speaker.messages():
                for message in messages:
                    yield message
            ended = "done"
        except BethinkError as error:
            ended = error.code if isinstance(error, Refusal) else "internal"
            raise
        finally:
            service.metrics.closed.labels(reason=ended).inc()
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)


async def _say(speaker: Speaker, text: str) -> None:
    await speaker.hear(text)
    await speaker.finish()


async def _whole(messages: Messages) -> Message:
    """All messages as one answer."""
    ready = await anext(messages)
    assert not isinstance(ready, LiveStep), "'ready' comes first"
    sentences: list[Message] = []
    steps: list[Step] = []
    latency: dict[str, float] = {}
    async for message in messages:
        if isinstance(message, LiveStep):
            steps.append(message.to_step())
        elif message["type"] == "sentence":
            sentences.append(_sentence(Translation.of(steps)))
            steps.clear()
        else:
            latency = message["latency"]
    return {
        "model": ready["model"],
        "policy": ready["policy"],
        "text": " ".join(sentence["text"] for sentence in sentences if sentence["text"]),
        "sentences": sentences,
        "latency": latency,
    }


def _sentence(told: Translation) -> Message:
    """Without its steps, of which a long text has more than should be kept."""
    return {"source": " ".join(told.source), "text": told.text, "delays": told.delays}


async def _unless_gone(request: Request, work: asyncio.Task[Message]) -> Message:
    """The result of the work, which is stopped when nobody waits for it any more."""
    try:
        while not work.done():
            await asyncio.wait([work], timeout=LOOK)
            if not work.done() and await request.is_disconnected():
                raise Refusal("gone", "nobody waits for the answer")
        return work.result()
    finally:
        work.cancel()


class Events(StreamingResponse):
    """Server-sent events, whose source is closed however they end."""

    def __init__(self, first: LiveStep | Message, messages: Messages, slow: float) -> None:
        self._events = _events(first, messages, slow)
        super().__init__(self._events, media_type=EVENTS, headers={"Cache-Control": "no-store"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with contextlib.aclosing(self._events):
            await super().__call__(scope, receive, send)


async def _events(first: LiveStep | Message, messages: Messages, slow: float) -> AsyncGenerator[str]:
    """Whoever needs more than `slow` seconds to take an event gets no more."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "events are sent from a task"
    message: LiveStep | Message | None = first
    async with contextlib.aclosing(messages):
        while message is not None:
            alarm = loop.call_later(slow, task.cancel)
            try:
                yield _event(message)
            finally:
                alarm.cancel()
            message = await _next(messages)


async def _next(messages: Messages) -> LiveStep | Message | None:
    try:
        return await anext(messages, None)
    except Refusal as refusal:
        return refusal.to_message()
    except BethinkError:
        LOG.exception("the engine failed")
        return Refusal("internal", "the server failed; try again").to_message()


def _event(message: LiveStep | Message) -> str:
    body = message.to_message() if isinstance(message, LiveStep) else message
    number = f"id: {message.n}\n" if isinstance(message, LiveStep) else ""
    return f"event: {body['type']}\n{number}data: {dumps(body)}\n\n"


def describe(app: FastAPI) -> HTMLResponse:
    """The OpenAPI document as a page without scripts, for those who read it where no network is."""
    document = app.openapi()
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{_safe(document['info']['title'])}</title><link rel=stylesheet href=/docs.css>",
        f"<h1>{_safe(document['info']['title'])}</h1><p>{_safe(document['info']['description'])}</p>",
    ]
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            parts.append(
                f"<h2><code>{method.upper()} {_safe(path)}</code></h2><p>{_safe(told.get('summary', ''))}.</p>"
            )
            parts.append(f"<p>{_safe(told.get('description', ''))}</p>")
            parts.append(_folded("request", told.get("requestBody")) + _folded("responses", told.get("responses")))
    parts.append("<h2>Schemas</h2>" + "".join(_folded(*pair) for pair in document["components"]["schemas"].items()))
    parts.append("<p>The same for programs: <a href=/openapi.json>openapi.json</a>.</p></html>")
    return HTMLResponse("".join(parts))


def _folded(name: str, value: object) -> str:
    if not value:
        return ""
    return f"<details><summary>{_safe(name)}</summary><pre>{_safe(json.dumps(value, indent=1))}</pre></details>"


def _safe(text: str) -> str:
    return html.escape(text)

"""What one hostile client can do: little, and nobody else feels it. Figures: `python -m tests.load.attack MODEL`."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.websockets import WebSocket, WebSocketState

from bethink import Translator
from bethink.aio import AsyncTranslator
from bethink.serve.models import Model
from bethink.serve.run import SafeFormatter
from bethink.serve.service import Service
from bethink.serve.socket import Connection
from bethink.serve.uvicorn_protocols import FRAMES_AT_ONCE
from tests.serve.servers import Process, Running, play, running, until
from tests.serve.talk import CONT, END, PING, TEXT, frame, raw, shown, start, talk, text, whole

SPEECH = "te riki nakoru , ne ruru wa homuran haturu ."
START = frame(TEXT, json.dumps(start()).encode())


@pytest.mark.parametrize(
    "payload",
    [
        frame(PING) * 4 * FRAMES_AT_ONCE,
        START + frame(PING, b"x" * 100) * 4 * FRAMES_AT_ONCE,
        frame(TEXT, b"{", last=False) + frame(CONT, last=False) * 4 * FRAMES_AT_ONCE,
        frame(TEXT, b"{", last=False) + frame(CONT, b"x", last=False) * 4 * FRAMES_AT_ONCE,
    ],
    ids=["pings", "pings after start", "empty parts", "parts of one byte"],
)
def test_a_flood_of_frames_that_say_nothing_ends_the_connection(server: Running, payload: bytes) -> None:
    async def scene() -> None:
        async with raw(server.port) as (reader, writer):
            writer.write(payload)
            with contextlib.suppress(ConnectionResetError):
                while await reader.read(65_536):
                    pass

    before = server.metric("bethink_rejects_total", reason="rate")
    play(scene)
    until(lambda: server.metric("bethink_rejects_total", reason="rate") == before + 1)


def test_a_message_in_many_parts_and_a_few_pings_are_welcome(server: Running, translator: Translator) -> None:
    async def scene() -> list[str]:
        async with talk(server.url) as client:
            await client.say(start())
            for _ in range(20):
                await client.socket.ping()
            await client.socket.send([json.dumps(text(SPEECH))[n : n + 1] for n in range(len(SPEECH) + 30)], text=True)
            await client.say(END)
            return [shown(await client.rest())]

    assert play(scene) == [translator.translate(SPEECH)]


def test_a_client_that_pings_and_never_reads_is_not_read_either(model: Model) -> None:
    """The answers to its pings must not pile up in the server."""

    async def scene(made: Running) -> int:
        async with raw(made.port) as (_, writer):
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(3):
                    while True:
                        writer.write(frame(PING, b"x" * 125) * 512)
                        await writer.drain()
            held = [one.transport.get_write_buffer_size() for one in made.server.server_state.connections]  # type: ignore[union-attr]
            return max(held)

    with pytest.MonkeyPatch.context() as patch, running(model) as made:
        patch.setattr("bethink.serve.auth.RateLimiter.allows", lambda *_: True)
        assert play(lambda: scene(made)) < 200_000


def test_many_small_messages_leave_room_for_others(model: Model) -> None:
    """Between two messages of one connection, the event loop turns to the other ones."""
    coming = itertools.chain([start()], itertools.repeat(text(""), 1000), [END])
    turns = 0

    async def receive() -> MutableMapping[str, Any]:
        message = next(coming, None)
        return {"type": "websocket.receive", "text": json.dumps(message)} if message else await asyncio.sleep(60, {})

    async def send(_: MutableMapping[str, Any]) -> None:
        pass

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scene() -> None:
        service = Service([Model(model.name, model.translator, AsyncTranslator(model.translator))])
        socket = WebSocket({"type": "websocket", "path": "/", "headers": [], "client": None}, receive, send)
        socket.client_state = socket.application_state = WebSocketState.CONNECTED
        async with service.running():
            other = asyncio.create_task(others())
            await Connection(socket, service).run()
            other.cancel()

    play(scene)
    assert turns > 1000


EVIL = "no\n2026-01-01 00:00:00 ERROR bethink.serve: all is lost\x1b[31m\r"


def test_a_client_cannot_write_into_the_log() -> None:
    process = Process("--verbose").start()
    broken = frame(TEXT, json.dumps(start(model=EVIL)).encode()) + frame(TEXT, b"\xff\xfe")

    async def scene() -> None:
        for _ in range(20):
            async with raw(process.port) as (reader, writer):
                writer.write(broken)
                with contextlib.suppress(ConnectionResetError):
                    while await reader.read(4096):
                        pass
        assert (await whole(f"{process.url}/v1/stream"))[-1]["type"] == "final"  # it lives
        process.ask_to_stop()

    play(scene)
    assert process.wait() == 0
    lines = process.said[0].splitlines()
    assert not [line for line in lines if "lost" in line or "Traceback" in line or "\x1b" in line]
    assert len([line for line in lines if line.endswith(("ended: model", "ended: gone"))]) == 20
    assert len(lines) <= 20 + 10  # one line for each, and what the server says of itself


def test_a_record_of_the_log_is_one_record() -> None:
    record = logging.LogRecord("x", logging.ERROR, "", 0, "failed: %s", (EVIL,), None)
    said = SafeFormatter("%(levelname)s %(message)s").format(record)
    assert said.split("\n") == [
        "ERROR failed: no",
        "    2026-01-01 00:00:00 ERROR bethink.serve: all is lost\\x1b[31m\\r",
    ]


def test_having_seen_more_than_there_is_ends_in_words(server: Running) -> None:
    ready = play(lambda: whole(server.url))[0]
    error = play(lambda: whole(server.url, text(SPEECH), resume=ready["resume"] | {"seen": 10_000}))[-1]
    assert (error["type"], error["code"]) == ("error", "diverged")
    assert "but resume.seen is 10000" in error["message"]

"""Hostile neighbours: whatever they do, nothing breaks, nothing stays behind, and the others get exactly their words."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from bethink import Translator, toy
from bethink.backend.onnx import OnnxBackend
from bethink.serve.models import Model
from tests.serve.servers import PATIENCE, Running, play, running
from tests.serve.talk import END, core, shown, start, steps, talk, text, whole

SENTENCES = [pair.source for pair in toy.sentences(60, seed=51)]
GONE = (ConnectionClosed, InvalidHandshake, OSError, EOFError)

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "version": st.just(2) | anything,
        "model": st.just("toy") | anything,
        "policy": st.sampled_from(["wait-k:2", "pe", "offline", "wait-k:k=999999"]) | anything,
        "text": st.text(max_size=40) | st.sampled_from(["te riki . ", "\n", "x" * 3000, "🙃 " * 30]) | anything,
        "resume": anything,
        "room": st.just("nowhere.key") | anything,
        "seen": anything,
    },
)
kinds = st.sampled_from(["start", "text", "text", "text", "policy", "end", "", "step", "ready"])
message = st.builds(lambda kind, more: {"type": kind} | more, kinds, fields)
frame = message | st.text(max_size=60) | st.binary(max_size=60) | st.just(start())


def nothing_stays(made: Running, model: Model) -> None:
    """Streams, sessions and the caches of the model are all given back."""

    async def settle() -> None:
        while made.service.streams or made.service.sockets or made.service.counters()["toy"].sessions or slots(model):
            await asyncio.sleep(0.02)

    play(settle)
    assert made.metric("bethink_streams") == 0


def slots(model: Model) -> int:
    assert isinstance(model.translator.backend, OnnxBackend)
    return len(model.translator.backend._slots)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(begin=st.booleans(), frames=st.lists(frame, max_size=10), leave=st.booleans())
def test_any_frames_get_an_answer_or_a_close(
    server: Running, model: Model, begin: bool, frames: list[Any], leave: bool
) -> None:
    async def scene() -> None:
        async with talk(server.url) as client:
            with contextlib.suppress(*GONE):
                await client.say(*([start()] if begin else []), *frames)
                if leave:
                    client.socket.transport.abort()
                    return
                await client.say(b"now it must end")
            said = await client.rest()
            assert client.code in (1000, 4400, 4404, 4409, 1007)
            assert all(told["type"] in ("ready", "step", "sentence", "final", "error") for told in said)

    play(scene)
    assert server.thread.is_alive()


def test_garbage_below_the_protocol(server: Running, model: Model, translator: Translator) -> None:
    """Bytes that are no HTTP, no handshake, or no frames."""
    draw = random.Random(5)
    handshake = (
        b"GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    for number in range(60):
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as raw,
            contextlib.suppress(OSError),
        ):
            raw.sendall(handshake if number % 2 else b"")
            raw.sendall(draw.randbytes(draw.randint(0, 4000)))
            if number % 3 == 0:  # a reset instead of a goodbye
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    nothing_stays(server, model)
    assert shown(play(lambda: whole(server.url, text(SENTENCES[0])))) == translator.translate(SENTENCES[0])


@pytest.mark.parametrize(
    "spoken",
    [
        "x" * 1_000_000,
        "🙃" * 20_000,
        "שלום עולם. كيف حالك؟ " * 50,
        "te " * 100_000,
        "\u202e\u200f\ufeff\u0000 te\u0301 <i>riki</i> &amp; . " * 50,
    ],
    ids=["a word of 1 MB", "emoji", "right to left", "a sentence of 100,000 words", "odd characters"],
)
def test_strange_texts(server: Running, model: Model, translator: Translator, spoken: str) -> None:
    """Some are endless; those are listened to for a while and left. What comes, comes as it should."""
    chunks = [spoken[i : i + 5_000] for i in range(0, len(spoken), 5_000)]

    async def scene() -> list[Any]:
        heard = []
        async with talk(server.url) as client:
            await client.say(start(policy="wait-k:2"))
            speaking = asyncio.create_task(client.say(*(text(chunk) for chunk in chunks), END))
            with contextlib.suppress(*GONE):
                while len(heard) < 800:
                    heard.append(await client.hear())
            client.socket.transport.abort()
            await asyncio.gather(speaking, return_exceptions=True)
        return heard

    got = [core(step) for step in steps(play(scene))]
    session = translator.session("wait-k:2")
    own = session.feed(spoken[: 600 if " " in spoken else 15_000])
    session.abandon()
    assert got[:50] == [core(step) for step in own[:50]]
    nothing_stays(server, model)


def test_a_server_under_attack_serves_the_others(model: Model, translator: Translator) -> None:
    """Forty speakers among a crowd that connects, shouts, cuts the line, says nothing, or pastes and runs."""

    async def honest(made: Running, number: int) -> bool:
        spoken = f"{SENTENCES[number]} {SENTENCES[-1 - number]}"
        policy = ("", "wait-k:3", "pe:k=2,rho=0.2,r=2", "adaptive")[number % 4]
        async with talk(made.url) as client:
            await client.say(start(policy=policy))
            for word in spoken.split(" "):
                await client.say(text(f"{word} "))
                await asyncio.sleep(0.01)
            await client.say(END)
            got = await client.rest()
        expected = translator.stream([f"{spoken} "], policy or None)
        return [core(step) for step in steps(got)] == [core(step) for step in expected]

    async def hostile(made: Running, draw: random.Random) -> None:
        with contextlib.suppress(*GONE):
            async with talk(made.url, open_timeout=5) as client:
                deed = draw.randrange(5)
                if deed == 0:
                    await client.say(draw.randbytes(100))
                elif deed == 1:
                    await client.say(start(), text("te riki nakoru . " * 2000))
                elif deed == 2:
                    await client.say(start(), text("te riki"), "{")
                elif deed == 3:
                    await client.say(start(), text("🙃" * 5000))
                    await asyncio.sleep(0.05)
                client.socket.transport.abort()

    async def scene(made: Running) -> list[bool]:
        draw = random.Random(8)

        async def crowd() -> None:
            while True:
                await asyncio.gather(*(hostile(made, draw) for _ in range(8)))

        attack = asyncio.create_task(crowd())
        try:
            return await asyncio.gather(*(honest(made, number) for number in range(40)))
        finally:
            attack.cancel()
            await asyncio.gather(attack, return_exceptions=True)

    with running(model) as made:
        assert all(play(lambda: scene(made), 4 * PATIENCE))
        nothing_stays(made, model)


def test_a_crowd_at_the_door(model: Model) -> None:
    """A thousand connections in a row, most of them refused for coming too often; nothing is left of them."""

    async def scene(made: Running) -> list[str]:
        async def knock() -> str:
            try:
                async with talk(made.url, open_timeout=PATIENCE) as client:
                    await client.say(start(), END)
                    return str((await client.rest())[-1].get("code", "served"))
            except GONE:
                return "turned away"

        answers: list[str] = []
        for _ in range(20):
            answers += await asyncio.gather(*(knock() for _ in range(50)))
        return answers

    with running(model, rate=0.001, burst=100) as made:
        answers = play(lambda: scene(made), 4 * PATIENCE)
        assert answers.count("served") == 100
        assert answers.count("rate") + answers.count("turned away") == 900
        nothing_stays(made, model)

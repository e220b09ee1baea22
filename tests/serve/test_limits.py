"""Every limit refuses at once and in words, and nobody else feels it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from bethink import Translator, toy
from bethink.aio import AsyncTranslator
from bethink.engine_thread import INBOX, OUTBOX
from bethink.errors import UsageError
from bethink.serve.app import create_app
from bethink.serve.auth import Access, Marks, RateLimiter, bearer, read_secret
from bethink.serve.limits import Limits, Pressure
from bethink.serve.models import Model
from bethink.serve.protocol import PATH
from bethink.serve.service import Service
from tests.serve.servers import PATIENCE, Process, Running, play, running
from tests.serve.talk import END, Message, Talk, shown, start, steps, talk, text, whole

SPEECH = " ".join(pair.source for pair in toy.sentences(3, seed=31))
LONGEST = 3 * 120 + 51  # steps that one sentence can have


async def refused(url: str, *messages: Message | str | bytes, **options: Any) -> tuple[Message | None, int | None]:
    """What a client is told, and the close code, when it says these things and then waits."""
    async with talk(url, **options) as client:
        with contextlib.suppress(ConnectionClosed):
            await client.say(*messages)
        said = await client.rest()
        return (said[-1] if said else None), client.code


def check(made: Running, code: str, close: int, *messages: Message | str | bytes, **options: Any) -> Message:
    error, closed = play(lambda: refused(made.url, *messages, **options))
    assert error is not None
    assert (error["type"], error["code"], error["fatal"], closed) == ("error", code, True, close)
    assert made.metric("bethink_rejects_total", reason=code) >= 1
    return error


@pytest.mark.parametrize(
    "messages",
    [
        ["garbage"],
        ["[" * 50_000],
        [b"\x00\x01"],
        [text("te")],
        [END],
        [start(), start()],
        [start(), "{}"],
        [start(), {"type": "text", "text": 5}],
        [start(), {"type": "wave"}],
    ],
)
def test_what_is_no_message_ends_the_stream(server: Running, messages: list[Message | str | bytes]) -> None:
    check(server, "invalid", 4400, *messages)


@pytest.mark.parametrize(
    ("fields", "code", "close"),
    [
        ({"version": 1}, "version", 4400),
        ({"model": "../toy"}, "model", 4404),
        ({"model": "/etc"}, "model", 4404),
        ({"model": "x" * 10_000}, "model", 4404),
        ({"policy": "wait-k:k=0"}, "policy", 4400),
        ({"policy": "x" * 10_000}, "policy", 4400),
    ],
)
def test_starts_that_cannot_be(server: Running, fields: Message, code: str, close: int) -> None:
    check(server, code, close, start(**fields))


def test_invalid_utf8_and_frames_too_large(server: Running) -> None:
    async def broken() -> int | None:
        async with talk(server.url) as client:
            await client.say(start())
            await client.hear()
            await client.socket.send(b"\xff\xfe", text=True)
            await client.rest()
            return client.code

    assert play(broken) == 1007
    _, code = play(lambda: refused(server.url, start(), text("x" * 70_000)))
    assert code == 1009


def test_one_stream_too_many(model: Model, translator: Translator) -> None:
    async def scene(made: Running) -> None:
        async with talk(made.url) as first, talk(made.url) as second:
            for client in (first, second):
                await client.say(start(), text(SPEECH[:40]))
                assert (await client.hear())["type"] == "ready"
            error, code = await refused(made.url, start())
            assert error is not None
            assert (error["code"], code) == ("full", 4503)
            for client in (first, second):  # they feel nothing
                await client.say(text(SPEECH[40:]), END)
                assert shown(await client.rest()) == translator.translate(SPEECH)
        assert (await whole(made.url))[-1]["type"] == "final"  # there is room again

    with running(model, streams=2) as made:
        play(lambda: scene(made))
        assert made.metric("bethink_rejects_total", reason="full") == 1


def test_too_many_connections_are_turned_away_at_the_door(model: Model) -> None:
    async def scene(made: Running) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", made.port) for _ in range(3)]
        async with contextlib_stack() as stack:
            for _ in range(made.service.limits.sockets):
                await stack.enter_async_context(talk(made.url))
            with pytest.raises(InvalidStatus) as turned:
                async with talk(made.url):
                    pass
            assert turned.value.response.status_code == 503
        for _, writer in silent:
            writer.close()

    import contextlib

    contextlib_stack = contextlib.AsyncExitStack
    with running(model, streams=1) as made:
        play(lambda: scene(made))


def test_a_server_that_is_behind_lets_nobody_new_in(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Service, "behind", 2.0)
    with running(model, lag=3.0) as made:
        ready = play(lambda: whole(made.url))[0]
    with running(model, lag=0.5) as made:
        assert "2.0 seconds behind" in check(made, "full", 4503, start())["message"]
        check(made, "full", 4503, start(resume=ready["resume"] | {"seen": 0}))  # signed by another server
        mine = made.service.marks.sign(ready["resume"])
        assert play(lambda: whole(made.url, resume=mine | {"seen": 0}))[-1]["type"] == "final"
        check(made, "full", 4503, start(resume=mine | {"seen": 9, "step": 9}))  # not what was signed
        assert made.metric("bethink_pressure_seconds") == 2.0


def test_a_session_is_let_in_once_at_a_time(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(made: Running) -> None:
        async with talk(made.url) as first:
            await first.say(start())
            again = start(resume=(await first.hear())["resume"] | {"seen": 0})
            monkeypatch.setattr(Service, "behind", 2.0)
            error, _ = await refused(made.url, again)
            assert error is not None
            assert error["code"] == "full"
        await asyncio.sleep(0)
        while made.service.streams:
            await asyncio.sleep(0.01)
        async with talk(made.url) as second:
            await second.say(again)
            assert (await second.hear())["type"] == "ready"

    with running(model, lag=1.0) as made:
        play(lambda: scene(made))


def test_a_server_lets_in_as_many_as_it_can_follow(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(made: Running) -> None:
        async with talk(made.url) as first, talk(made.url) as second:
            for client in (first, second):
                await client.say(start())
                assert (await client.hear())["type"] == "ready"
            error, closed = await refused(made.url, start())
            assert error is not None
            assert "can follow 2 speakers" in error["message"]
            assert closed == 4503
            monkeypatch.setattr(Service, "behind", 0.0)  # nobody waits, so nobody minds
            assert (await whole(made.url))[-1]["type"] == "final"

    monkeypatch.setattr("bethink.engine_thread.Cost.capacity", 2.3)
    monkeypatch.setattr(Service, "behind", 0.1)
    with running(model, lag=1.0) as made:
        play(lambda: scene(made))


def test_one_address_cannot_take_every_stream(model: Model) -> None:
    async def scene(made: Running) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(3):
                client = await stack.enter_async_context(talk(made.url))
                await client.say(start())
                assert (await client.hear())["type"] == "ready"
            error, code = await refused(made.url, start())
            assert error is not None
            assert "3 streams are open from this address" in error["message"]
            assert (error["code"], code) == ("full", 4503)
            elsewhere = await stack.enter_async_context(talk(made.url, local_addr=("127.0.0.2", 0)))
            await elsewhere.say(start(), END)
            assert (await elsewhere.rest())[-1]["type"] == "final"

    with running(model, streams=100, address=3) as made:
        play(lambda: scene(made))
    with running(model, streams=5, address=4) as made:  # a share: not more than are left for all others
        play(lambda: scene(made))


def test_a_start_without_text_is_not_kept(model: Model) -> None:
    with running(model, first=0.2) as made:
        assert "no message came for too long: 0.2 seconds" in check(made, "idle", 4408, start())["message"]

        async def slowly() -> str:
            async with talk(made.url) as client:
                await client.say(start(), text("te "))
                await asyncio.sleep(0.5)
                await client.say(text(SPEECH), END)
                return (await client.rest())[-1]["type"]

        assert play(slowly) == "final"


def test_too_much_text(model: Model) -> None:
    with running(model, text=100) as made:
        check(made, "text", 4413, start(), text("te " * 20), text("te " * 20))


def test_silence(model: Model) -> None:
    with running(model, start=1.0) as made:
        assert "no 'start' came in time: 1 seconds" in check(made, "idle", 4408)["message"]
    with running(model, idle=0.1) as made:
        said = check(made, "idle", 4408, start(), text("te riki "))["message"]
        assert "no message came for too long: 0.1 seconds" in said


def test_connections_that_say_nothing_are_closed(model: Model) -> None:
    async def scene(made: Running) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        writer.write(b"GET /he")  # and no more
        rest = await reader.read()
        writer.close()
        return rest

    with running(model, start=0.2) as made:
        assert play(lambda: scene(made)) == b""


def test_connections_that_say_nothing_more_are_closed(model: Model) -> None:
    """Every request has its time, not only the first one on a connection."""
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def scene(made: Running) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        writer.write(request)
        await reader.readuntil(b'"streams":0}')
        writer.write(request[:20])  # and no more
        rest = await reader.read()
        writer.close()
        return rest

    with running(model, start=2.0) as made:
        assert play(lambda: scene(made)) == b""


def test_coming_too_often(model: Model) -> None:
    with running(model, rate=0.001, burst=3) as made:
        for _ in range(3):
            assert play(lambda: whole(made.url))[-1]["type"] == "final"
        check(made, "rate", 4429)


def test_tokens(model: Model) -> None:
    with running(model, access=Access("127.0.0.1", token="correct-horse")) as made:
        check(made, "unauthorized", 4401, start())
        check(made, "unauthorized", 4401, start(token="wrong"))
        check(made, "unauthorized", 4401, start(), additional_headers={"Authorization": "Bearer wrong"})
        assert play(lambda: whole(made.url, token="correct-horse"))[-1]["type"] == "final"

        async def with_header() -> Message:
            async with talk(made.url, additional_headers={"Authorization": "Bearer correct-horse"}) as client:
                await client.say(start(), END)
                return (await client.rest())[-1]

        assert play(with_header)["type"] == "final"


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://[", "https://evil.example:443"]
)
def test_other_sites_may_not_ask(server: Running, origin: str) -> None:
    with pytest.raises(InvalidStatus) as turned:
        play(lambda: refused(server.url, start(), origin=origin))
    assert turned.value.response.status_code == 403


def test_the_page_itself_may(server: Running) -> None:
    async def scene() -> Message:
        async with talk(server.url, origin=server.http) as client:
            await client.say(start(), END)
            return (await client.rest())[-1]

    assert play(scene)["type"] == "final"


def test_a_reader_who_does_not_read_holds_little_and_is_left(model: Model, translator: Translator) -> None:
    async def scene(made: Running) -> None:
        lazy = socket.create_connection(("127.0.0.1", made.port))
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.setblocking(False)
        loop = asyncio.get_running_loop()
        async with talk(made.url, sock=lazy, max_queue=1) as client:
            await client.say(start())
            client.socket.transport.pause_reading()
            speaking = asyncio.create_task(flood(client))
            while not made.metric("bethink_rejects_total", reason="slow"):
                for handler in list(made.service.streams):
                    mailbox = handler.session._mailbox
                    assert len(mailbox.inbox) <= INBOX
                    assert len(mailbox.outbox) <= OUTBOX + LONGEST
                    assert len(handler._steps) <= LONGEST
                await asyncio.sleep(0.05)
            speaking.cancel()
            client.socket.transport.abort()
        assert loop.time() > 0
        assert shown(await whole(made.url, text(SPEECH))) == translator.translate(SPEECH)

    async def flood(client: Any) -> None:
        while True:
            await client.say(text(f"{SPEECH} " * 20))

    with running(model, slow=0.5) as made:
        play(lambda: scene(made))


def test_draining_finishes_the_sentence_and_says_come_back(model: Model, translator: Translator) -> None:
    first, second = (pair.source for pair in toy.sentences(2, seed=32))

    async def scene(made: Running) -> list[Message]:
        async with talk(made.url) as idle, talk(made.url) as busy:
            for client in (idle, busy):
                await client.say(start())
                await client.hear()
            await busy.say(text(first[:30]))
            heard = [await busy.hear()]
            made.drain()
            while heard[-1]["type"] != "reconnect":
                heard.append(await busy.hear())
            await busy.say(text(f"{first[30:]} {second}"))
            heard += await busy.rest()
            quick = await idle.rest()
            assert [message["type"] for message in quick] == ["reconnect", "error"]
            assert (idle.code, busy.code) == (1012, 1012)
            return heard

    with running(model, drain=PATIENCE) as made:
        got = play(lambda: scene(made))
        made.thread.join(PATIENCE)
        assert not made.thread.is_alive()
    assert shown(got) == translator.translate(first)
    assert [message["type"] for message in got[-2:]] == ["sentence", "error"]


async def in_mid_sentence(client: Talk) -> None:
    await client.say(start(), text("te riki "))
    assert (await client.hear())["type"] == "ready"
    assert (await client.hear())["type"] == "step"


def test_draining_lets_nobody_in(model: Model) -> None:
    async def scene(made: Running) -> None:
        async with talk(made.url) as busy:
            await in_mid_sentence(busy)
            made.drain()
            while (await busy.hear())["type"] != "reconnect":
                pass
            error, code = await refused(made.url, start())
            assert error is not None
            assert (error["code"], code) == ("draining", 1012)

    with running(model, drain=PATIENCE) as made:  # it lasts until the one who is here leaves
        play(lambda: scene(made))


def test_draining_does_not_wait_for_ever(model: Model) -> None:
    async def scene(made: Running) -> int | None:
        async with talk(made.url) as busy:
            await in_mid_sentence(busy)
            made.drain()
            await busy.rest()
            return busy.code

    with running(model, drain=0.5) as made:
        assert play(lambda: scene(made)) == 1012


def test_a_process_told_to_stop_stops_well() -> None:
    process = Process("--verbose").start()

    async def scene() -> int | None:
        async with talk(f"{process.url}/v1/stream") as client:
            await client.say(start(token="not-for-the-log"), text("te riki nakoru . confidential"))
            while (await client.hear())["type"] != "sentence":
                pass
            process.ask_to_stop()
            await client.rest()
            return client.code

    assert play(scene) == 1012
    assert process.wait() == 0
    (said,) = process.said
    assert "ended: draining" in said
    assert "Traceback" not in said
    assert not [secret for secret in ("not-for-the-log", "riki", "confidential", "wizir") if secret in said]


# the parts


def test_a_bucket_fills_again_and_addresses_are_forgotten() -> None:
    now = [0.0]
    rate = RateLimiter(2.0, 3, addresses=2, clock=lambda: now[0])
    assert [rate.allows("a") for _ in range(4)] == [True, True, True, False]
    now[0] = 0.5
    assert [rate.allows("a") for _ in range(2)] == [True, False]
    assert rate.allows("b")
    assert rate.allows("c")  # a is forgotten: two addresses are enough to remember
    assert [rate.allows("a") for _ in range(3)] == [True, True, True]


def test_a_network_is_one_address() -> None:
    rate = RateLimiter(1.0, 1)
    assert rate.allows("2001:db8::1")
    assert not rate.allows("2001:db8::2")
    assert rate.allows("2001:db8:0:1::1")
    assert rate.allows("192.0.2.1")
    assert not rate.allows("::ffff:192.0.2.1")


@pytest.mark.parametrize(
    ("host", "origins", "asked", "known"),
    [
        ("127.0.0.1", [], "localhost:8080", True),
        ("127.0.0.1", [], "[::1]:8080", True),
        ("127.0.0.1", [], "rebound.example:8080", False),
        ("127.0.0.1", [], "", False),
        ("127.0.0.1", ["https://live.example.org"], "live.example.org", True),
        ("0.0.0.0", [], "anything.example", True),
        ("0.0.0.0", ["https://live.example.org"], "anything.example", False),
    ],
)
def test_names_of_the_server(host: str, origins: list[str], asked: str, known: bool) -> None:
    assert Access(host, origins).allows_host(asked) is known


def test_origins() -> None:
    access = Access("0.0.0.0", ["https://live.example.org/"])
    assert access.allows_origin("https://live.example.org", "127.0.0.1:8080")
    assert access.allows_origin(None, "live.example.org")
    assert not access.allows_origin("https://live.example.org.evil.example", "live.example.org")
    assert not Access("127.0.0.1").allows_origin("http://rebound.example:8080", "rebound.example:8080")
    with pytest.raises(UsageError, match="is not an origin"):
        Access("0.0.0.0", ["live.example.org"])


def test_tokens_are_compared_whole() -> None:
    access = Access("127.0.0.1", token="correct-horse")
    assert access.allows_token("correct-horse")
    assert not any(access.allows_token(token) for token in ("", "correct", "correct-horse ", "\ud800", "é"))
    assert Access("127.0.0.1").allows_token("")
    assert bearer("Bearer  abc") == "abc"
    assert bearer("Basic abc") == bearer(None) == ""


def test_marks_hold_what_they_signed_and_survive_a_restart(tmp_path: Path) -> None:
    file = str(tmp_path / "secret")
    marks, point = Marks(read_secret(file)), {"model": "toy@1", "step": 3, "spoken": True, "session": "a"}
    signed = marks.sign(point)
    assert marks.accepts(signed)
    assert Marks(read_secret(file)).accepts(signed)
    assert not any(marks.accepts(forged) for forged in (point, signed | {"step": 4}, signed | {"mark": "é"}))
    assert not Marks().accepts(signed)
    assert (tmp_path / "secret").stat().st_mode & 0o77 == 0
    (tmp_path / "secret").write_text("short")
    with pytest.raises(UsageError, match="has 5 characters"):
        read_secret(file)


def test_pressure_rises_with_what_words_wait_and_falls_in_silence() -> None:
    now = [0.0]
    pressure = Pressure(half_life=2.0, clock=lambda: now[0])
    for _ in range(200):
        now[0] += 0.1
        pressure.add(3.0)
    assert pressure.seconds == pytest.approx(3.0, rel=0.01)
    now[0] += 2.0
    assert pressure.seconds == pytest.approx(1.5, rel=0.01)


def test_limits_are_above_nothing() -> None:
    with pytest.raises(UsageError, match="'streams' is 0"):
        Limits(streams=0)


def test_messages_are_json_of_one_line(server: Running) -> None:
    async def scene() -> list[str]:
        async with talk(server.url) as client:
            await client.say(start(), text("te \u2028 riki\n."), END)
            return [json.dumps(message) for message in await client.rest()]

    assert steps([json.loads(frame) for frame in play(scene)])


def test_frames_too_large_that_the_server_in_front_let_through(model: Model) -> None:
    """As under another ASGI server than ours, which has limits of its own."""
    said: list[MutableMapping[str, Any]] = []
    frames = [start(), text("x" * 70_000)]
    coming = iter(
        [{"type": "websocket.connect"}, *({"type": "websocket.receive", "text": json.dumps(frame)} for frame in frames)]
    )

    async def receive() -> MutableMapping[str, Any]:
        if (message := next(coming, None)) is None:
            await asyncio.sleep(60)
        return message or {}

    async def send(message: MutableMapping[str, Any]) -> None:
        said.append(message)

    async def scene() -> None:
        fresh = Model(model.name, model.translator, AsyncTranslator(model.translator))
        service = Service([fresh])
        scope = {"type": "websocket", "path": PATH, "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1)}
        async with service.running():
            await create_app(service)(scope | {"query_string": b"", "subprotocols": []}, receive, send)

    play(scene)
    assert json.loads(said[-2]["text"])["code"] == "size"
    assert said[-1]["code"] == 1009

"""Rooms: everybody sees the same words, late or after a restart, and only those who have a key."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import subprocess
import sys
import time
import urllib.error
from pathlib import Path
from typing import Any

import pytest
import segno

from bethink.cli import main
from bethink.client import Client, Refusal
from bethink.errors import DataError
from bethink.serve.auth import Access
from bethink.serve.limits import Limits
from bethink.serve.models import Model
from bethink.serve.room_log import SUFFIX, RoomLog
from bethink.serve.rooms import PER_ADDRESS, Rooms
from bethink.translator import Translator
from tests.serve.listen import Listener, call
from tests.serve.servers import Process, Running, play, running

pytestmark = pytest.mark.usefixtures("empty_rooms")


def opened(server: Running, **order: Any) -> dict[str, Any]:
    keys: dict[str, Any] = call("POST", f"{server.http}/v1/rooms", order)
    return keys


def status(method: str, url: str, body: Any = None, **headers: str) -> tuple[int, str]:
    """The status and the code of a refusal."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        call(method, url, body, **headers)
    return refused.value.code, json.loads(refused.value.read())["error"]["code"]


async def speak(url: str, text: str, **options: Any) -> str:
    async with Client(url, **options) as client:
        return "".join([step.text async for step in client.stream([text]) if step.action == "WRITE"])


def test_everybody_sees_the_same_words(server: Running, translator: Translator, speech: str) -> None:
    keys = opened(server)

    async def scene() -> tuple[str, list[Listener]]:
        listeners = [Listener(server.port, keys["listener"]) for _ in range(20)]
        tasks = [asyncio.create_task(listener.run()) for listener in listeners]
        words = await speak(server.url, speech, room=keys["speaker"])
        late = Listener(server.port, keys["listener"])
        await asyncio.gather(*tasks, late.run())
        return words, [*listeners, late]

    words, listeners = play(scene)
    assert words == translator.translate(speech)
    assert {listener.text for listener in listeners} == {words}
    assert all(n in {event[0] for event in listeners[0].events} for n, _ in listeners[-1].events)


def test_the_example_that_speaks_in_a_room(server: Running, translator: Translator, speech: str) -> None:
    ran = subprocess.run(
        [sys.executable, Path(__file__).parents[2] / "examples" / "speak.py", server.http],
        input=speech.encode(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.decode() == translator.translate(speech) + "\n"
    key = re.search(r"#(\S+)", ran.stderr.decode())
    assert key
    listener = Listener(server.port, key[1])
    play(listener.run)
    assert listener.text == translator.translate(speech)


def test_a_second_text_goes_on_after_the_first(server: Running, speech: str) -> None:
    keys = opened(server)

    async def scene() -> tuple[str, str]:
        words = [await speak(server.url, speech, room=keys["speaker"]) for _ in range(2)]
        listener = Listener(server.port, keys["listener"])
        await listener.run()
        assert [event["sentence"] for _, event in listener.events] == list(range(len(listener.events)))
        return "".join(words), listener.text

    said, heard = play(scene)
    assert said == heard
    assert said[0] != " "


def test_a_speaker_who_lost_the_connection_resumes(server: Running, translator: Translator, speech: str) -> None:
    keys = opened(server)
    half, words = len(speech) // 2, f"{translator.translate('te riki .')} {translator.translate(speech)}"

    async def scene() -> tuple[int, str]:
        await speak(server.url, "te riki .", room=keys["speaker"])  # numbers no longer begin at 0
        async with Client(server.url, room=keys["speaker"]) as client:
            listener = Listener(server.port, keys["listener"])
            listening = asyncio.create_task(listener.run())
            assert client.socket is not None
            client.socket.transport.abort()  # before the first step
            await client.feed(speech[:half])
            await anext(client)
            client.socket.transport.abort()
            await client.feed(speech[half:])
            await client.finish()
            [step async for step in client]
        await listening
        return client.reconnects, listener.text

    reconnects, heard = play(scene)
    assert reconnects == 2
    assert heard == words


def test_several_languages(model: Model, speech: str) -> None:
    other = Model("other", model.translator, model.live)
    with running(model) as server:
        server.service.models = [
            *server.service.models,
            Model("other", other.translator, server.service.models[0].live),
        ]
        keys = opened(server, models=["toy", "other"])
        assert keys["models"] == ["toy", "other"]

        async def scene() -> list[str]:
            policies = {"toy": "offline", "other": "wait-k:k=1"}
            said = [
                await speak(server.url, speech, room=keys["speaker"], model=name, policy=policy)
                for name, policy in policies.items()
            ]
            listeners = [Listener(server.port, keys["listener"], name) for name in policies]
            await asyncio.gather(*(listener.run() for listener in listeners))
            assert [listener.text for listener in listeners] == said
            return said

        play(scene)
        room = call("GET", f"{server.http}/v1/rooms/{keys['room']}?token={keys['listener'].partition('.')[2]}")
        assert [language["model"] for language in room["languages"]] == ["toy", "other"]


def test_keys(server: Running) -> None:
    keys = opened(server, room="spring-talk")
    assert keys["link"] == f"{server.http}/listen.html#{keys['listener']}"
    speaker, listener = (keys[who].partition(".")[2] for who in ("speaker", "listener"))
    room = f"{server.http}/v1/rooms/spring-talk"
    assert status("POST", f"{server.http}/v1/rooms", {"room": "spring-talk"}) == (409, "taken")
    for wrong in ("", "wrong", speaker, listener + "x"):
        assert status("GET", f"{room}?token={wrong}") == (404, "room")
    for wrong in ("", listener):
        assert status("DELETE", f"{room}?token={wrong}") == (404, "room")
    assert call("GET", room, None, Authorization=f"Bearer {listener}")["room"] == "spring-talk"

    async def listener_speaks() -> None:
        await speak(server.url, "te riki .", room=keys["listener"])

    with pytest.raises(Refusal, match="no room has this name and key"):
        play(listener_speaks)
    assert call("DELETE", f"{room}?token={speaker}") == b""
    assert status("GET", f"{room}?token={listener}") == (404, "room")


def test_a_rooms_key_is_enough_where_the_server_has_a_token(model: Model, speech: str) -> None:
    with running(model, access=Access("127.0.0.1", (), "the-servers-token")) as server:
        assert status("POST", f"{server.http}/v1/rooms", {}) == (401, "unauthorized")
        keys = call("POST", f"{server.http}/v1/rooms", {}, Authorization="Bearer the-servers-token")

        async def scene() -> None:
            words = await speak(server.url, speech, room=keys["speaker"])
            await (listener := Listener(server.port, keys["listener"])).run()
            assert listener.text == words

        play(scene)


@pytest.mark.parametrize("name", ["Großer Saal", "../etc/passwd", "a--b", "-a", "a" * 41, "a\n"])
def test_names_that_cannot_be(server: Running, name: str) -> None:
    assert status("POST", f"{server.http}/v1/rooms", {"room": name}) == (422, "invalid")


def test_bounds(model: Model) -> None:
    rooms = Rooms(Limits(rooms=PER_ADDRESS + 1, history=2000))
    for _ in range(PER_ADDRESS):
        rooms.open("", ["toy"], "192.0.2.1")
    with pytest.raises(Refusal, match="this address has"):
        rooms.open("", ["toy"], "192.0.2.1")
    rooms.open("", ["toy"], "192.0.2.2")
    with pytest.raises(Refusal, match="rooms of this server are taken"):
        rooms.open("", ["toy"], "192.0.2.3")
    rooms.limits = Limits(expiry=0.001)
    time.sleep(0.01)
    rooms.open("", ["toy"], "192.0.2.1")
    assert len(rooms) == 1
    with running(model, listeners=1) as server:
        server.service.rooms = Rooms(server.service.limits)
        keys = opened(server)

        async def scene() -> None:
            first = asyncio.create_task(Listener(server.port, keys["listener"]).run())
            while not server.service.rooms.listeners:  # type: ignore[union-attr]
                await asyncio.sleep(0.01)
            second = await asyncio.to_thread(
                status,
                "GET",
                f"{server.http}/v1/rooms/{keys['room']}/events?token={keys['listener'].partition('.')[2]}",
            )
            assert second == (503, "full")
            first.cancel()

        play(scene)


def test_a_room_that_is_full_ends_the_stream(model: Model, speech: str) -> None:
    with running(model) as server:
        server.service.rooms = Rooms(Limits(history=300))
        keys = opened(server)
        with pytest.raises(Refusal, match="a room may have 300 bytes"):
            play(lambda: speak(server.url, speech, room=keys["speaker"]))


def test_a_listener_who_does_not_read_is_dropped_and_holds_little(model: Model) -> None:
    """It blocks in `send`, so the server holds one buffer for it, not the words that follow."""
    with running(model, slow=0.5) as server:
        keys = opened(server)
        room = server.service.open_rooms.find_key("listener", keys["listener"])
        with socket.create_connection(("127.0.0.1", server.port)) as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            name, _, token = keys["listener"].partition(".")
            deaf.sendall(f"GET /v1/rooms/{name}/events?token={token} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

            async def scene() -> None:
                while not room.listeners:
                    await asyncio.sleep(0.01)
                for number in range(3000):
                    room.tracks["toy"].restore(
                        {"s": number, "n": number, "c": "", "w": [[number, 0, " word" * 30]], "e": 1}
                    )
                server.server._loop.call_soon_threadsafe(room.tracks["toy"]._wake)
                while room.listeners:
                    await asyncio.sleep(0.05)

            play(scene)
        assert room.listeners == 0
        assert call("GET", f"{server.http}/health")  # the others are served as before


def test_captions_and_the_code(server: Running, translator: Translator, speech: str) -> None:
    keys = opened(server)
    play(lambda: speak(server.url, speech, room=keys["speaker"]))
    name, _, token = keys["listener"].partition(".")
    room = f"{server.http}/v1/rooms/{name}"
    vtt, srt = (call("GET", f"{room}/captions.{kind}?token={token}").decode() for kind in ("vtt", "srt"))
    assert vtt.startswith("WEBVTT\n\n00:00:0")
    assert srt.startswith("1\n00:00:0")
    shown = " ".join(line for line in vtt.splitlines()[1:] if line and "-->" not in line)
    assert shown == translator.translate(speech)
    assert status("GET", f"{room}/captions.exe?token={token}")[0] == 422
    for base, link in (
        ("", keys["link"]),
        (f"&base={server.http}/live/", keys["link"].replace("/listen", "/live/listen")),
    ):
        code = call("GET", f"{room}/qr.svg?token={token}{base}").decode()
        wanted = segno.make(link, error="m", micro=False).svg_inline(border=4, light="#fff")
        assert re.findall(r' d="[^"]+"', code) == re.findall(r' d="[^"]+"', wanted)
    assert status("GET", f"{room}/qr.svg?token={token}&base=https://evil.example") == (403, "origin")


def test_only_one_replica_of_a_cluster_has_rooms(model: Model) -> None:
    with running(model) as server:
        server.service.rooms = None
        with pytest.raises(urllib.error.HTTPError) as refused:
            opened(server)
        told = json.loads(refused.value.read())["error"]
        assert (refused.value.code, told["code"]) == (404, "room")
        assert "in a cluster they are an application of their own" in told["message"]
        with pytest.raises(Refusal, match="this replica has no rooms"):
            play(lambda: speak(server.url, "te riki .", room="any.key"))
        server.service.rooms = Rooms()


# on disk


def test_a_log_can_be_damaged_at_its_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rooms = Rooms(folder=tmp_path)
    room, keys = rooms.open("spring", ["toy"], "")
    track = room.tracks["toy"]
    for number in range(3):
        track._keep({"s": number, "n": number, "c": "x", "w": [[number, 0, f" word{number}"]], "e": 1})
    rooms.close()
    path = tmp_path / f"spring{SUFFIX}"
    whole = path.read_bytes()
    assert keys["speaker"].partition(".")[2].encode() not in whole
    for cut in range(len(whole.splitlines(keepends=True)[0]), len(whole)):
        path.write_bytes(whole[:cut])
        again = Rooms(folder=tmp_path)
        there = again.find_key("listener", keys["listener"])
        lines = whole[:cut].count(b"\n") - 1
        assert len(there.tracks["toy"].sentences) == lines
        assert path.read_bytes() == b"".join(whole.splitlines(keepends=True)[: lines + 1])
        again.close()


def test_what_is_no_log_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, content in {"a": b"", "b": b"[]\n", "c": b'{"version": 9}\n', "d": b"\xff\n"}.items():
        (tmp_path / f"{name}{SUFFIX}").write_bytes(content)
    with caplog.at_level(logging.WARNING):
        rooms = Rooms(folder=tmp_path)
    assert len(rooms) == 0
    assert caplog.text.count("is not the log of a room") == 4
    with pytest.raises(Refusal, match="keeps another log"):
        rooms.open("c", ["toy"], "")
    rooms.close()


def test_an_expired_room_leaves_nothing(tmp_path: Path) -> None:
    rooms = Rooms(Limits(expiry=0.001), tmp_path)
    rooms.open("spring", ["toy"], "")
    assert RoomLog(tmp_path / f"spring{SUFFIX}").size > 0
    time.sleep(0.01)
    rooms._expire()
    assert list(tmp_path.glob("*.jsonl")) == []
    rooms.close()


def test_two_servers_need_two_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = Rooms(folder=tmp_path)
    with pytest.raises(DataError, match="another server keeps its rooms"):
        Rooms(folder=tmp_path)
    assert main(["serve", "--port", "0", "--rooms", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("bethink: another server keeps its rooms in ")
    first.close()
    Rooms(folder=tmp_path).close()


def test_a_room_that_is_closed_shows_nothing_that_its_log_has_not(tmp_path: Path) -> None:
    rooms = Rooms(folder=tmp_path)
    room, _ = rooms.open("spring", ["toy"], "")
    rooms.close()
    with pytest.raises(Refusal, match="this server is stopping"):
        room.tracks["toy"].finish()
    assert not room.tracks["toy"].final


def test_kills_and_restarts_leave_no_gap_and_no_change(tmp_path: Path, translator: Translator, speech: str) -> None:
    """The server is killed, stopped and killed during a talk; speaker and listeners come back by themselves."""
    assert restarts(tmp_path, 3, speech) == translator.translate(speech)


def restarts(folder: Path, times: int, speech: str) -> str:
    """What everybody has seen after so many restarts in the course of a speech."""
    process = Process("--rooms", str(folder)).start()
    keys = call("POST", f"http://127.0.0.1:{process.port}/v1/rooms", {})
    words = speech.split(" ")

    async def scene() -> str:
        listeners = [Listener(process.port, keys["listener"]) for _ in range(5)]
        tasks = [asyncio.create_task(listener.run()) for listener in listeners]
        async with Client(process.url, room=keys["speaker"]) as client:

            async def feed() -> None:
                for number, word in enumerate(words):
                    await client.feed(f"{word} ")
                    await asyncio.sleep(0.01)
                    before, now = number * times // len(words), (number + 1) * times // len(words)
                    if now == before:
                        continue
                    if now % 2:
                        process.kill()
                    else:
                        process.ask_to_stop()
                        assert await asyncio.to_thread(process.wait) == 0
                    await asyncio.to_thread(process.start)
                await client.finish()

            feeding = asyncio.create_task(feed())
            said = "".join([step.text async for step in client if step.action == "WRITE"])
            await feeding
        await asyncio.gather(*tasks)
        late = Listener(process.port, keys["listener"])
        await late.run()
        assert {listener.text for listener in [*listeners, late]} == {said}
        assert all(listener.connections > 1 for listener in listeners)
        return said

    try:
        return play(scene, 60 + 20 * times)
    finally:
        process.kill()

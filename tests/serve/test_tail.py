"""The tail on the socket: for clients that ask, and for nobody else: not for rooms, their logs, captions or other clients."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from bethink.client import Client
from bethink.serve.rooms import Rooms
from bethink.trace import Step
from bethink.translator import Translator
from tests.serve.listen import Listener, call
from tests.serve.servers import Running, play
from tests.serve.talk import END, Message, core, shown, start, steps, talk, text

POLICY = "pe:k=1,rho=0.95,r=3"  # puts off most words


async def word_by_word(server: Running, speech: str, **fields: Any) -> list[Message]:
    """A speaker who waits after each word until the server has nothing more to say for now."""
    async with talk(server.url) as client:
        await client.say(start(policy=POLICY, **fields))
        got = [await client.hear()]
        for word in speech.split():
            await client.say(text(f"{word} "))
            try:
                while True:
                    async with asyncio.timeout(0.1):
                        got.append(await client.hear())
            except TimeoutError:
                pass
        await client.say(END)
        return got + await client.rest()


def test_who_asks_gets_it_and_the_same_steps(server: Running, translator: Translator) -> None:
    speech = "te riki nakoru , ne ruru wa homuran haturu . temo himaki muru ."
    plain = play(lambda: word_by_word(server, speech))
    asked = play(lambda: word_by_word(server, speech, tail=True))
    assert [core(step) for step in steps(asked)] == [core(step) for step in steps(plain)]
    assert shown(asked) == translator.translate(speech, POLICY)
    tails = [message for message in asked if message["type"] == "tail"]
    assert len(tails) > 3
    assert all(set(tail) == {"type", "sentence", "text"} for tail in tails)
    assert {tail["sentence"] for tail in tails} == {0, 1}
    assert not any(message["type"] == "tail" or "tail" in message for message in plain)
    assert not any("tail" in message for message in steps(asked))
    session = translator.session(POLICY)
    wanted = {""} | {session.tail.text for word in speech.split() if session.feed(f"{word} ") is not None}
    assert {tail["text"] for tail in tails} <= wanted


def test_no_room_ever_has_it(server: Running, tmp_path: Path) -> None:
    speech = "te riki nakoru , ne ruru wa homuran haturu ."
    rooms, server.service.rooms = server.service.rooms, Rooms(server.service.limits, tmp_path)
    try:
        keys = call("POST", f"{server.http}/v1/rooms", {})

        async def scene() -> tuple[list[Message], Listener]:
            listener = Listener(server.port, keys["listener"])
            listening = asyncio.create_task(listener.run())
            got = await word_by_word(server, speech, tail=True, room=keys["speaker"])
            await listening
            return got, listener

        got, listener = play(scene)
        assert any(message["type"] == "tail" and message["text"] for message in got)
        assert listener.text == shown(got)
        assert all(set(event) <= {"sentence", "words", "stability", "end"} for _, event in listener.events)
        assert b"tail" not in next(tmp_path.glob("*.jsonl")).read_bytes()
        name, _, token = keys["listener"].partition(".")
        written = call("GET", f"{server.http}/v1/rooms/{name}/captions.srt?token={token}").decode()
        lines = [line for line in written.splitlines() if line and "-->" not in line and not line.isdecimal()]
        assert " ".join(lines) == shown(got)
    finally:
        server.service.open_rooms.close()
        server.service.rooms = rooms


def test_the_client_gives_it_also_after_a_lost_connection(server: Running, translator: Translator) -> None:
    speech = "te riki nakoru , ne ruru wa homuran haturu ."
    tails: list[str] = []

    async def scene() -> tuple[list[Step], int]:
        async with Client(server.url, policy=POLICY, on_tail=tails.append) as client:
            for number, word in enumerate(speech.split()):
                await client.feed(f"{word} ")
                await asyncio.sleep(0.1)
                if number == 4:
                    assert client.socket is not None
                    client.socket.transport.abort()
                    tails.append("lost")
                    while not client.reconnects:
                        await asyncio.sleep(0.01)
            await client.finish()
            return [step async for step in client], client.reconnects

    found, reconnects = play(scene)
    assert reconnects == 1
    assert [core(step) for step in found] == [core(step) for step in translator.stream([f"{speech} "], POLICY)]
    before, after = tails[: tails.index("lost")], tails[tails.index("lost") + 1 :]
    assert any(before)
    assert any(after)

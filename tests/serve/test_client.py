"""The client comes back by itself, and its reader cannot tell."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator

import pytest

from bethink import Action, Translator, toy
from bethink.client import Client, ConnectionLost, Refusal, SyncClient
from bethink.serve.models import Model
from bethink.serve.protocol import LiveStep, Mark
from bethink.serve.replay import Memory
from tests.serve.servers import Process, Running, play, running

SPEECH = " ".join(pair.source for pair in toy.sentences(8, seed=21))


def shown(steps: list[LiveStep]) -> str:
    return "".join(step.text for step in steps if step.action is Action.WRITE)


def core(step: object) -> tuple[object, ...]:
    names = ("sentence", "action", "token", "read", "heard", "written", "text")
    return tuple(getattr(step, name) for name in names)


async def words(text: str, pause: float = 0.0) -> AsyncIterator[str]:
    for word in text.split(" "):
        yield f"{word} "
        await asyncio.sleep(pause)


def test_a_text_goes_through(server: Running, translator: Translator) -> None:
    async def scene() -> None:
        async with Client(server.url, policy="wait-k:3") as client:
            got = [step async for step in client.stream(words(SPEECH))]
        assert [core(step) for step in got] == [core(step) for step in translator.stream([SPEECH + " "], "wait-k:3")]
        assert client.final["steps"] == len(got)
        assert client.reconnects == 0

    play(scene)


def test_without_asyncio(server: Running, translator: Translator) -> None:
    with SyncClient(server.http.replace("http", "ws")) as client:
        client.send(SPEECH[:50])
        client.send(SPEECH[50:])
        client.end()
        assert shown(list(client)) == translator.translate(SPEECH)
        assert client.final["sentences"] == 8


def test_policies_change_and_wrong_ones_are_raised(server: Running) -> None:
    async def scene() -> None:
        async with Client(server.url, policy="wait-k:1") as client:
            await client.change("waitk")
            with pytest.raises(Refusal, match="Did you mean 'wait-k'"):
                await anext(client)
            await client.change("wait-k:4")
            await client.send("te riki nakoru ne ruru .")
            await client.end()
            first = next(step for step in [step async for step in client] if step.action is Action.WRITE)
            assert first.read == 4

    play(scene)


def test_what_cannot_be_is_said_at_once(server: Running) -> None:
    async def model_missing() -> None:
        async with Client(server.url, model="klingon"):
            pass

    async def nobody_there() -> None:
        async with Client("ws://127.0.0.1:1"):
            pass

    with pytest.raises(Refusal, match="no model named 'klingon'"):
        play(model_missing)
    with pytest.raises(ConnectionLost, match="cannot reach"):
        play(nobody_there)


def test_connections_that_break_again_and_again_change_nothing(model: Model, translator: Translator) -> None:
    """Every connection is cut at a random moment, on the server's side."""

    async def scene(running: Running) -> tuple[list[LiveStep], int]:
        draw = random.Random(3)

        async def cutting() -> None:
            while True:
                await asyncio.sleep(draw.uniform(0.02, 0.2))
                loop = running.server._loop
                for connection in list(running.server.server_state.connections):
                    loop.call_soon_threadsafe(connection.transport.abort)

        async with Client(running.url) as client:
            axe = asyncio.create_task(cutting())
            got = [step async for step in client.stream(words(SPEECH, 0.01))]
            axe.cancel()
            return got, client.reconnects

    with running(model) as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr("bethink.client.FIRST_WAIT", 0.01)
        patch.setattr("bethink.client.LONGEST_WAIT", 0.05)
        got, reconnects = play(lambda: scene(made))
    assert reconnects >= 3
    assert [step.n for step in got] == list(range(len(got)))
    assert [core(step) for step in got] == [core(step) for step in translator.stream([SPEECH + " "])]


def test_a_killed_server_that_comes_back_is_not_noticed(translator: Translator) -> None:
    """The real thing: a process killed in mid-sentence, started again, with the speaker talking on meanwhile."""
    process = Process().start()
    states: list[str] = []
    kills = [30, 90]

    async def scene() -> list[LiveStep]:
        loop = asyncio.get_running_loop()
        got: list[LiveStep] = []
        async with Client(process.url, on_state=states.append) as client:
            async for step in client.stream(words(SPEECH, 0.03)):
                got.append(step)
                if kills and len(got) >= kills[0] and step.action is Action.WRITE and not step.end:  # in mid-sentence
                    kills.pop(0)
                    await loop.run_in_executor(None, process.kill)
                    await loop.run_in_executor(None, process.start)
        return got

    try:
        got = play(scene, 60)
    finally:
        process.kill()
    assert states.count("lost") == 2
    assert states[-1] == "ended"
    assert [core(step) for step in got] == [core(step) for step in translator.stream([SPEECH + " "])]
    assert shown(got).strip() == translator.translate(SPEECH)


def test_patience_ends(model: Model) -> None:
    async def scene(made: Running) -> None:
        async with Client(made.url, patience=0.2) as client:
            await client.send("te riki ")
            await anext(client)
            threading.Thread(target=made.stop).start()
            async for _ in client:
                pass

    with running(model) as made, pytest.raises(ConnectionLost, match="out of reach for 0.2 seconds"):
        play(lambda: scene(made))


def test_memory_keeps_the_open_sentence_and_no_more() -> None:
    memory = Memory()
    memory.say("te riki . 😀")
    memory.change("wait-k:2")
    memory.say(" ne ")
    memory.change("wait-k:3")
    memory.settle(Mark("m", "p", 1, 5, offset=10))
    assert [(item.offset, item.text, item.policy) for item in memory.items] == [
        (10, "😀", ""),
        (12, "", "wait-k:2"),
        (12, " ne ", ""),
        (16, "", "wait-k:3"),
    ]
    memory.settle(Mark("m", "p", 2, 9, offset=12))
    assert [item.policy for item in memory.items] == ["wait-k:2", "", "wait-k:3"]
    memory.settle(Mark("m", "p", 3, 12, offset=16))
    assert [item.policy for item in memory.items] == ["wait-k:3"]

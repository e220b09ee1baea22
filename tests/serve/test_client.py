"""The client comes back by itself, and its reader cannot tell."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.server import ServerConnection, serve

from bethink import Action, Step, Translator, toy
from bethink.client import Client, ConnectionLost, Refusal, SyncClient
from bethink.client.resume import ReplayBuffer, cut
from bethink.errors import BethinkError
from bethink.serve.models import Model
from bethink.serve.protocol import resume_message
from bethink.trace import ResumePoint, units
from tests.ports import free_port
from tests.serve.servers import CLONE, PATIENCE, Process, Running, play, running

SPEECH = " ".join(pair.source for pair in toy.sentences(8, seed=21))


def shown(steps: list[Step]) -> str:
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
    with SyncClient(server.http) as client:
        client.feed(SPEECH[:50])
        client.feed(SPEECH[50:])
        client.finish()
        assert shown(list(client)) == translator.translate(SPEECH)
        assert client.final["sentences"] == 8


def test_without_asyncio_steps_come_while_the_source_is_waited_for(server: Running, translator: Translator) -> None:
    began = threading.Event()

    def slow() -> Iterator[str]:
        yield SPEECH[:50]
        assert began.wait(PATIENCE)
        yield SPEECH[50:]

    got: list[Step] = []
    with SyncClient(server.url) as client:
        for step in client.stream(slow()):
            got.append(step)
            began.set()
        assert client.final["steps"] == len(got)
    assert shown(got) == translator.translate(SPEECH)


def test_without_asyncio_a_source_that_fails_fails_its_reader(server: Running) -> None:
    def broken() -> Iterator[str]:
        yield "te riki "
        raise ValueError("the microphone is gone")

    with SyncClient(server.url) as client, pytest.raises(ValueError, match="the microphone is gone"):
        list(client.stream(broken()))


def test_without_asyncio_a_stream_that_is_closed_says_no_more(server: Running, translator: Translator) -> None:
    more = threading.Event()

    def slow() -> Iterator[str]:
        yield SPEECH[:50]
        more.wait(PATIENCE)
        yield "never said "

    with SyncClient(server.url) as client:
        got = []
        for step in client.stream(slow()):
            got.append(step)
            break
        more.set()
        got += client.stream([SPEECH[50:]])
    assert shown(got) == translator.translate(SPEECH)


def test_without_asyncio_nobody_speaks_when_the_client_is_closed(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    more = threading.Event()

    def slow() -> Iterator[str]:
        yield "te riki nakoru "
        more.wait(PATIENCE)

    with SyncClient(server.url) as client:
        steps = client.stream(slow())
        next(steps)
    more.set()
    steps.close()  # type: ignore[attr-defined]
    gc.collect()  # a task left behind would complain
    assert not [record for record in caplog.records if record.name in ("asyncio", "concurrent.futures")]


def test_without_asyncio_a_program_ends_though_its_source_has_not(server: Running) -> None:
    program = f"""if True:
        import sys
        from bethink.client import SyncClient
        with SyncClient("{server.url}") as client:
            print(next(client.stream(sys.stdin)).text)
    """
    argv = [sys.executable, "-c", program]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("te riki\n")
        process.stdin.flush()
        assert process.wait(PATIENCE) == 0
        assert process.stdout.read() == "te\n"


def test_the_examples_of_the_page_run_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    page = (CLONE / "docs" / "protocol.md").read_text("utf-8")
    model = Model.load(str(CLONE / "models" / "de-en"), threads=1)
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with running(model) as made:
        for example in examples:
            assert "127.0.0.1:8080" in example
            exec(example.replace("127.0.0.1:8080", f"127.0.0.1:{made.port}"), {})  # noqa: S102 - it is ours
    text = "Guten Morgen, meine Damen und Herren!"
    said = [model.translator.translate(text), model.translator.translate(text, "wait-k:k=3")]
    out, _, link = capsys.readouterr().out.partition("Listen at ")  # the example of a room
    assert out == "".join(said)
    assert link.startswith(f"{made.http}/listen.html#")


def test_policies_change_and_wrong_ones_are_raised(server: Running) -> None:
    async def scene() -> None:
        async with Client(server.url, policy="wait-k:1") as client:
            await client.change("waitk")
            with pytest.raises(Refusal, match="Did you mean 'wait-k'"):
                await anext(client)
            await client.change("wait-k:4")
            await client.feed("te riki nakoru ne ruru .")
            await client.finish()
            first = next(step for step in [step async for step in client] if step.action is Action.WRITE)
            assert first.read == 4

    play(scene)


def test_what_cannot_be_is_said_at_once(server: Running) -> None:
    async def model_missing() -> None:
        async with Client(server.url, model="klingon"):
            pass

    async def nonsense() -> None:
        async with Client("not a URL"):
            pass

    async def another_path() -> None:
        async with Client(server.url.replace("/v1/stream", "/v2/v1/stream")):
            pass

    with pytest.raises(Refusal, match="no model named 'klingon'"):
        play(model_missing)
    with pytest.raises(ConnectionLost, match="cannot reach"):
        play(nonsense)
    with pytest.raises(ConnectionLost, match="HTTP 404"):
        play(another_path)


def test_a_server_that_is_not_there_yet_is_waited_for(translator: Translator, caplog: pytest.LogCaptureFixture) -> None:
    process = Process()

    async def scene() -> str:
        async with Client(process.url, patience=PATIENCE) as client:
            return shown([step async for step in client.stream([SPEECH])])

    starting = threading.Timer(0.3, process.start)
    starting.start()
    try:
        assert play(scene) == translator.translate(SPEECH)
    finally:
        starting.join()
        process.kill()
    assert "cannot reach" in caplog.text
    assert f"trying again for up to {PATIENCE:g} seconds" in caplog.text


def test_a_server_that_never_comes_is_waited_for_as_long_as_asked() -> None:
    async def scene() -> None:
        async with Client(f"ws://127.0.0.1:{free_port()}", patience=0.6):
            pass

    began = time.monotonic()
    with pytest.raises(ConnectionLost, match=r"out of reach for 0\.6 seconds: cannot reach"):
        play(scene)
    assert time.monotonic() - began > 0.6


GERMAN = (
    "Wir wollen gemeinsam darüber sprechen, wie unsere Stadt in zehn Jahren aussehen soll. "
    "Eine Schule hat angeboten, den alten Park an jedem ersten Samstag im Monat zu pflegen."
)


@pytest.mark.parametrize(("name", "speech", "slower"), [("toy", SPEECH, 1), ("de-en", GERMAN, 5)])
def test_connections_that_break_again_and_again_change_nothing(name: str, speech: str, slower: int) -> None:
    """Every connection is cut at a random moment, on the server's side; with a real model also between the pieces of a word."""
    model = Model.load(str(CLONE / "models" / name), threads=1)

    async def scene(running: Running) -> tuple[list[Step], int]:
        draw, got = random.Random(3), list[Step]()

        async def cutting() -> None:
            """Once the last cut has healed and, after two, something has come since: a slow machine gets on, too."""
            cuts = seen = 0
            while True:
                await asyncio.sleep(slower * draw.uniform(0.02, 0.2))
                if client.reconnects < cuts or (cuts >= 2 and len(got) == seen):
                    continue
                cuts, seen = cuts + 1, len(got)
                loop = running.server._loop
                for connection in list(running.server.server_state.connections):
                    loop.call_soon_threadsafe(connection.transport.abort)

        async def speaking() -> AsyncIterator[str]:
            async for word in words(speech, slower * 0.01):
                yield word
            while client.reconnects < 2:  # a fast machine does not end too soon
                await asyncio.sleep(0.01)

        async with Client(running.url) as client:
            axe = asyncio.create_task(cutting())
            async for step in client.stream(speaking()):
                got.append(step)
            axe.cancel()
            return got, client.reconnects

    with running(model) as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr("bethink.client.patience.FIRST_WAIT", 0.01)
        patch.setattr("bethink.client.patience.LONGEST_WAIT", 0.05)
        got, reconnects = play(lambda: scene(made))
    assert reconnects >= 2
    assert [step.n for step in got] == list(range(len(got)))
    assert [core(step) for step in got] == [core(step) for step in model.translator.stream([speech + " "])]


def test_a_killed_server_that_comes_back_is_not_noticed(translator: Translator) -> None:
    """The real thing: a process killed in mid-sentence, started again, with the speaker talking on meanwhile."""
    process = Process().start()
    states: list[str] = []

    async def scene() -> list[Step]:
        got: list[Step] = []
        killed = [asyncio.Event(), asyncio.Event()]

        async def speaking() -> AsyncIterator[str]:
            """In thirds: the second begins when the server is killed for the first time, and the last when it is again."""
            spoken = SPEECH.split(" ")
            for number, word in enumerate(spoken):
                if number in (len(spoken) // 3, 2 * len(spoken) // 3):
                    await killed[number > len(spoken) // 2].wait()
                yield f"{word} "
                await asyncio.sleep(0.03)

        async with Client(process.url, on_state=states.append) as client:
            async for step in client.stream(speaking()):
                got.append(step)
                deaths = sum(event.is_set() for event in killed)
                in_mid_sentence = step.action is Action.WRITE and not step.end
                if deaths < 2 and len(got) >= (30, 90)[deaths] and states[-1] == "connected" and in_mid_sentence:
                    await asyncio.to_thread(process.kill)
                    killed[deaths].set()
                    await asyncio.to_thread(process.start)
        return got

    try:
        got = play(scene)
    finally:
        process.kill()
    assert states.count("lost") == 2
    assert states[-1] == "ended"
    assert [core(step) for step in got] == [core(step) for step in translator.stream([SPEECH + " "])]
    assert shown(got).strip() == translator.translate(SPEECH)


@contextlib.asynccontextmanager
async def stub(*frames: object, close: int = 1000) -> AsyncIterator[str]:
    """A server that says the same to everybody."""

    async def converse(socket: ServerConnection) -> None:
        await socket.recv()
        for frame in frames:
            await socket.send(frame if isinstance(frame, str) else json.dumps(frame))
        await socket.close(close)

    async with serve(converse, "127.0.0.1", 0) as made:
        yield f"ws://127.0.0.1:{next(iter(made.sockets)).getsockname()[1]}"


READY = {"type": "ready", "limits": {"message": 65536}, "resume": resume_message("toy@1", ResumePoint("wait-k:k=3"))}
TOO_MUCH = {"type": "error", "code": "text", "message": "too much text", "fatal": True}


def test_who_speaks_is_told_that_there_is_no_hope() -> None:
    async def scene() -> None:
        async with stub(READY, TOO_MUCH, close=4413) as url, Client(url) as client:

            async def speak() -> None:
                while True:
                    await client.feed("te " * 50_000)

            with pytest.raises(Refusal, match="too much text"):
                await speak()
            with pytest.raises(Refusal, match="too much text"):
                await client.change("wait-k:3")
            for _ in range(2):
                with pytest.raises(Refusal, match="too much text"):
                    await anext(client)

    play(scene)


def test_a_source_that_fails_fails_its_reader(server: Running) -> None:
    def broken() -> Iterator[str]:
        yield "te riki "
        raise ValueError("the microphone is gone")

    async def cancelled() -> AsyncIterator[str]:
        yield "te riki "
        raise asyncio.CancelledError

    async def read(chunks: Iterator[str] | AsyncIterator[str]) -> None:
        async with Client(server.url) as client:
            async for _ in client.stream(chunks):
                pass

    with pytest.raises(ValueError, match="the microphone is gone"):
        play(lambda: read(broken()))
    with pytest.raises(BethinkError, match="cancelled before the text was complete"):
        play(lambda: read(cancelled()))


@pytest.mark.parametrize(
    "frame", ["garbage", [], {}, {"type": "start"}, {"type": "error"}, READY | {"limits": {}}, READY | {"resume": 5}]
)
def test_a_server_that_is_another_is_refused(frame: object) -> None:
    async def scene() -> None:
        async with stub(frame) as url, Client(url):
            pass

    with pytest.raises(Refusal) as refused:
        play(scene)
    assert refused.value.code == "invalid"


@pytest.mark.parametrize("frame", ["garbage", {"type": "step", "n": 0}, {"type": "sentence"}, {"type": "error"}])
def test_answers_that_cannot_be_understood_end_the_stream(frame: object) -> None:
    async def scene() -> None:
        async with stub(READY, frame) as url, Client(url) as client:
            await anext(client)

    with pytest.raises(Refusal, match="does not follow the live protocol"):
        play(scene)


def test_a_client_that_is_closed_leaves_nobody_waiting(server: Running) -> None:
    async def scene() -> None:
        async with Client(server.url) as client:
            reading = asyncio.create_task(anext(client))
            await asyncio.sleep(0)
        with pytest.raises(BethinkError, match="closed before its text was complete"):
            await reading
        with pytest.raises(BethinkError, match="closed before its text was complete"):
            await client.feed("te")

    play(scene)


def test_a_silent_client_comes_back_when_there_is_text(model: Model, translator: Translator) -> None:
    states: list[str] = []

    async def scene(made: Running) -> str:
        async with Client(made.url, on_state=states.append) as client:
            await client.feed(SPEECH[:20])
            got = [await anext(client)]  # what was said has arrived
            while states[-1] != "lost":
                await asyncio.sleep(0.01)
            before = client.reconnects
            await asyncio.sleep(0.3)
            assert client.reconnects == before
            got += [step async for step in client.stream([SPEECH[20:]])]
            assert client.reconnects > before
            return shown(got)

    with running(model, idle=1.0) as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr("bethink.client.patience.FIRST_WAIT", 0.01)
        assert play(lambda: scene(made)) == translator.translate(SPEECH)


def test_what_crosses_with_hanging_up_for_silence_is_said_again() -> None:
    heard: list[str] = []
    again = asyncio.Event()

    async def converse(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send(json.dumps({**READY, "limits": {"message": 65536, "idle": 600}}))
        heard.append(json.loads(await socket.recv())["text"])
        if len(heard) == 1:  # it came too late: the server was about to hang up
            await socket.send(json.dumps({**TOO_MUCH, "code": "idle", "message": "no message came for too long"}))
            await socket.close(4408)
        else:
            again.set()
        await socket.wait_closed()

    async def scene() -> None:
        port = free_port()
        async with serve(converse, "127.0.0.1", port), Client(f"ws://127.0.0.1:{port}") as client:
            await client.feed("te riki ")
            await asyncio.wait_for(again.wait(), 60)
        assert heard == ["te riki ", "te riki "]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bethink.client.patience.FIRST_WAIT", 0.01)
        play(scene)


def test_patience_ends(model: Model) -> None:
    async def scene(made: Running) -> None:
        async with Client(made.url, patience=0.2) as client:
            await client.feed("te riki ")
            await anext(client)
            threading.Thread(target=made.stop).start()
            async for _ in client:
                pass

    with running(model) as made, pytest.raises(ConnectionLost, match="out of reach for 0.2 seconds"):
        play(lambda: scene(made))


def point(sentence: int, step: int, offset: int) -> dict[str, object]:
    return resume_message("m", ResumePoint("p", sentence, step, offset))


def test_a_client_keeps_the_open_sentence_and_no_more() -> None:
    buffer = ReplayBuffer()
    buffer.feed("te riki . 😀")
    buffer.change("wait-k:2")
    buffer.feed(" ne ")
    buffer.change("wait-k:3")
    buffer.settle(point(1, 5, offset=10))
    assert [(item.offset, item.text, item.policy) for item in buffer.items] == [
        (10, "😀", ""),
        (12, "", "wait-k:2"),
        (12, " ne ", ""),
        (16, "", "wait-k:3"),
    ]
    buffer.settle(point(2, 9, offset=12))
    assert [item.policy for item in buffer.items] == ["wait-k:2", "", "wait-k:3"]
    buffer.settle(point(3, 12, offset=16))
    assert [item.policy for item in buffer.items] == ["wait-k:3"]


texts = st.text(st.one_of(st.characters(), st.sampled_from("\ud83d\ude00😀é")), max_size=30)


@given(texts, st.data())
def test_positions_do_not_depend_on_how_a_text_is_cut(whole: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, units(whole)))
    rest = cut(whole, place)
    raw = whole.encode("utf-16-le", "surrogatepass")
    assert rest.encode("utf-16-le", "surrogatepass") == raw[2 * place :]
    assert units(rest) == units(whole) - place

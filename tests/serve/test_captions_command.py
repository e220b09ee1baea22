"""`bethink captions` brings every word of a room to its places once, whatever fails on the way."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from bethink import toy
from bethink.cli import main
from bethink.client import Client
from bethink.client import captions as sinks
from tests.serve.caption_service import CaptionService, caption_service
from tests.serve.listen import call
from tests.serve.servers import CLONE, Process, Running, play, until

SPEECH = " ".join(pair.source for pair in toy.sentences(12, seed=11))


pytestmark = pytest.mark.usefixtures("empty_rooms")


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bethink.client.patience.FIRST_WAIT", 0.01)


def opened(server: Running) -> dict[str, Any]:
    keys: dict[str, Any] = call("POST", f"{server.http}/v1/rooms", {})
    return keys


async def speak(url: str, key: str, text: str = SPEECH, pause: float = 0.002) -> str:
    async with Client(url, room=key) as client:

        async def chunks() -> Any:
            for word in text.split():
                yield f"{word} "
                await asyncio.sleep(pause)

        return "".join([step.text async for step in client.stream(chunks()) if step.action == "WRITE"])


def carried(link: str, *places: str, **options: str) -> threading.Thread:
    """The command in a thread, for it blocks until the speaker has ended."""
    flags = [word for place in places for word in ("--to", place)]
    flags += [word for name, value in options.items() for word in (f"--{name}", value)]
    codes: list[int] = []

    def run() -> None:
        codes.append(main(["captions", "--room", link, *flags]))

    thread = threading.Thread(target=run)
    thread.codes = codes  # type: ignore[attr-defined]
    thread.start()
    return thread


def ended(thread: threading.Thread) -> int:
    thread.join(60)
    assert not thread.is_alive()
    code: int = thread.codes[0]  # type: ignore[attr-defined]
    return code


def flat(text: str) -> str:
    return " ".join(text.split())


def shown(service: CaptionService) -> str:
    assert service.wrong == []
    return flat(" ".join(service.shown))


def test_files_at_the_end_are_what_the_server_gives(server: Running, tmp_path: Path) -> None:
    keys = opened(server)
    vtt, srt = tmp_path / "talk.vtt", tmp_path / "talk.srt"
    command = carried(keys["link"], str(vtt), str(srt))
    until(lambda: vtt.exists() and srt.exists())
    said = play(lambda: speak(server.url, keys["speaker"]))
    assert ended(command) == 0
    name, _, token = keys["listener"].partition(".")
    for file in (vtt, srt):
        whole = call("GET", f"{server.http}/v1/rooms/{name}/captions{file.suffix}?token={token}").decode()
        assert file.read_text("utf-8") == whole
    lines = [line for line in vtt.read_text("utf-8").splitlines()[1:] if line and "-->" not in line]
    assert flat(" ".join(lines)) == flat(said)
    assert max(map(len, lines)) <= 42


def test_only_webvtt_marks_words_that_were_written_early(server: Running, tmp_path: Path) -> None:
    keys = opened(server)
    track = server.service.open_rooms.find_key("listener", keys["listener"]).tracks["toy"]
    track.restore(
        {"s": 0, "n": 3, "c": "", "w": [[1, 10, "Good"], [2, 20, " night", 0.4], [3, 30, " all.", 0.98]], "e": 1}
    )
    track.finish()
    name, _, token = keys["listener"].partition(".")
    address = f"{server.http}/v1/rooms/{name}/captions"
    marked, plain = "Good <c.doubt>night</c> all.", "Good night all."
    for query, line in (("", marked), ("&doubt=false", plain)):
        assert call("GET", f"{address}.vtt?token={token}{query}").decode().splitlines()[3] == line
    assert call("GET", f"{address}.srt?token={token}").decode().splitlines()[2] == plain
    for flags, line in (([], marked), (["--no-doubt"], plain)):
        files = tmp_path / "talk.vtt", tmp_path / "talk.srt"
        places = [word for file in files for word in ("--to", str(file))]
        assert main(["captions", "--room", keys["link"], *places, *flags]) == 0
        assert files[0].read_text("utf-8").splitlines()[3] == line
        assert files[1].read_text("utf-8").splitlines()[2] == plain


@pytest.mark.parametrize("name", ["zoom", "youtube"])
@pytest.mark.parametrize("faults", [(), ("", "503", "lost", "", "lost", "lost", "")], ids=["well", "with faults"])
def test_no_word_is_lost_or_doubled(server: Running, name: str, faults: tuple[str, ...]) -> None:
    keys = opened(server)
    with caption_service(*faults) as (service, url):
        command = carried(keys["link"], f"{name}:{url}")
        until(lambda: server.service.open_rooms.find_key("listener", keys["listener"]).listeners)
        said = play(lambda: speak(server.url, keys["speaker"]))
        assert ended(command) == 0
        bodies = service.shown
        if name == "youtube":
            assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\n\S.*\n$", body) for body in bodies)
            service.shown = [body.partition("\n")[2] for body in bodies]
        assert shown(service) == flat(said)
        assert service.posts > len(bodies) if faults else service.posts == len(bodies)
        assert all(len(line) < 50 for body in bodies for line in body.splitlines())


def test_who_comes_late_gets_what_comes_from_now_on(server: Running) -> None:
    keys = opened(server)
    with caption_service() as (service, url):
        service.shown = ["from another program\n"] * 3
        play(lambda: speak(server.url, keys["speaker"], "te riki nakoru ."))
        room = server.service.open_rooms.find_key("listener", keys["listener"])
        room.tracks["toy"].final = False  # as when the speaker only pauses
        command = carried(keys["link"], f"zoom:{url}&lang=de-DE")
        until(lambda: room.listeners)
        said = play(lambda: speak(server.url, keys["speaker"]))
        assert ended(command) == 0
        assert flat(" ".join(service.shown[3:])) == flat(said)
        assert {query["lang"][0] for query in service.queries} == {"de-DE"}
        assert service.wrong == []


def test_a_command_that_is_killed_goes_on_with_the_next_word(server: Running, tmp_path: Path) -> None:
    keys = opened(server)
    environment = os.environ | {"PYTHONPATH": str(CLONE / "src")}
    with caption_service("", "lost") as (service, url):
        flags = ["--room", keys["link"], "--to", f"youtube:{url}", "--state", str(tmp_path / "state")]
        argv = [sys.executable, "-m", "bethink", "captions", *flags]

        async def scene() -> str:
            command = subprocess.Popen(argv, env=environment, stderr=subprocess.DEVNULL)
            room = server.service.open_rooms.find_key("listener", keys["listener"])
            while not room.listeners:
                await asyncio.sleep(0.02)
            talk = asyncio.create_task(speak(server.url, keys["speaker"], pause=0.05))
            for kills in (2, 4):
                while len(service.shown) < kills:
                    await asyncio.sleep(0.01)
                command.kill()
                command.wait()
                command = subprocess.Popen(argv, env=environment, stderr=subprocess.DEVNULL)
            said = await talk
            assert await asyncio.to_thread(command.wait, 60) == 0
            return said

        said = play(scene)
        service.shown = [body.partition("\n")[2] for body in service.shown]
        assert shown(service) == flat(said)


def test_a_server_that_is_killed_makes_no_difference(tmp_path: Path) -> None:
    process = Process("--rooms", str(tmp_path / "rooms")).start()
    try:
        keys = call("POST", f"http://127.0.0.1:{process.port}/v1/rooms", {})
        with caption_service("", "503") as (service, url):
            command = carried(keys["link"], f"zoom:{url}", str(tmp_path / "talk.srt"))
            name, _, token = keys["listener"].partition(".")
            about = f"http://127.0.0.1:{process.port}/v1/rooms/{name}?token={token}"
            until(lambda: call("GET", about)["listeners"] == 2)  # Zoom gets what comes from then on

            async def scene() -> str:
                talk = asyncio.create_task(speak(process.url, keys["speaker"], pause=0.02))
                while not service.shown:
                    await asyncio.sleep(0.01)
                process.kill()
                await asyncio.to_thread(process.start)
                return await talk

            said = play(scene)
            assert ended(command) == 0
            assert shown(service) == flat(said)
            written = (tmp_path / "talk.srt").read_text("utf-8")
            lines = [line for line in written.splitlines() if line and "-->" not in line and not line.isdecimal()]
            assert flat(" ".join(lines)) == flat(said)
    finally:
        process.kill()


def test_a_service_that_takes_nothing_ends_the_command(
    server: Running,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    keys = opened(server)
    patient = sinks.PostSink.__init__
    monkeypatch.setattr(sinks.PostSink, "__init__", lambda *given: patient(*given, patience=0.1))
    with caplog.at_level(logging.WARNING), caption_service("503") as (service, url):
        command = carried(keys["link"], f"zoom:{url}")
        until(lambda: server.service.open_rooms.find_key("listener", keys["listener"]).listeners)
        play(lambda: speak(server.url, keys["speaker"]))
        assert ended(command) == 1
    assert service.shown == []
    err = capsys.readouterr().err
    assert "zoom (127.0.0.1) took no captions for 0.1 seconds: HTTP status 503" in err
    assert "signature" not in err + caplog.text


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--room", "http://127.0.0.1/listen.html", "--to", "a.vtt"], "is not the link of a room"),
        (["--room", "ws://127.0.0.1/listen.html#a.b", "--to", "a.vtt"], "is not the link of a room"),
        (["--room", "http://127.0.0.1/listen.html#a.b", "--to", "a.txt"], "is no place for captions"),
        (["--room", "http://127.0.0.1/listen.html#a.b", "--to", "zoom:here"], "zoom needs its caption address"),
        (["--to", "a.vtt"], "--room"),
    ],
)
def test_usage(capsys: pytest.CaptureFixture[str], flags: list[str], said: str) -> None:
    assert main(["captions", *flags]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_room_that_does_not_exist(server: Running, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    link = f"{server.http}/listen.html#nowhere.x"
    assert main(["captions", "--room", link, "--to", str(tmp_path / "a.vtt")]) == 1
    assert "no room has this name and key" in capsys.readouterr().err
    keys = opened(server)
    assert main(["captions", "--room", keys["link"], "--model", "fr", "--to", str(tmp_path / "a.vtt")]) == 2
    assert "this room has no model named 'fr'; it has toy" in capsys.readouterr().err


def test_a_damaged_note_is_told(server: Running, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    keys, url = opened(server), "http://127.0.0.1:9/closedcaption"
    sinks.sink_for(f"zoom:{url}", sinks.Layout(), tmp_path)
    sink = sinks.sink_for(f"zoom:{url}", sinks.Layout(), tmp_path)
    assert isinstance(sink, sinks.PostSink)
    assert sink._state is not None
    sink._state.write_text(json.dumps({"seq": "x"}), "utf-8")
    assert main(["captions", "--room", keys["link"], "--state", str(tmp_path), "--to", f"zoom:{url}"]) == 1
    assert "is damaged" in capsys.readouterr().err

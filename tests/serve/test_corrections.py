"""Corrections in rooms: every listener, file and caption service gets each of them once, late, after a restart and after faults too."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bethink.cli import main
from bethink.client import Client
from bethink.client import captions as sinks
from bethink.serve.models import Model
from bethink.serve.rooms import Rooms
from bethink.trace import Step, shown
from tests.serve.caption_service import CaptionService, caption_service
from tests.serve.listen import Listener, call
from tests.serve.servers import Running, play, running, until
from tests.serve.test_captions_command import carried, ended, flat


class Doubting:
    """Doubts every second sentence and corrects it with the whole translation."""

    def doubtful(self, source: str, said: str) -> bool:
        return len(source) % 2 == 0

    def correction(self, source: str, said: str, whole: str, sure: float) -> str | None:
        return whole


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bethink.client.patience.FIRST_WAIT", 0.01)


@pytest.fixture(scope="module")
def doubting(model: Model) -> Iterator[Running]:
    translator = copy.copy(model.translator)
    translator.repair = Doubting()  # type: ignore[assignment]
    with running(Model(model.name, translator, model.live)) as server:
        yield server


@pytest.fixture
def keys(doubting: Running, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A room with a log."""
    rooms, doubting.service.rooms = doubting.service.rooms, Rooms(doubting.service.limits, tmp_path / "rooms")
    yield call("POST", f"{doubting.http}/v1/rooms", {})
    doubting.service.rooms.close()
    doubting.service.rooms = rooms


async def speak(server: Running, keys: dict[str, Any], speech: str) -> list[Step]:
    async with Client(server.url, room=keys["speaker"]) as client:
        return [step async for step in client.stream([speech])]


def corrections(listener: Listener) -> list[tuple[int, str]]:
    """Of each sentence that has one."""
    return [(event["sentence"], event["correction"][1]) for _, event in listener.events if "correction" in event]


def test_listeners_get_each_correction_once(
    doubting: Running, keys: dict[str, Any], tmp_path: Path, speech: str
) -> None:
    async def scene() -> tuple[list[Step], list[Listener]]:
        early, late = (Listener(doubting.port, keys["listener"]) for _ in range(2))
        listening = asyncio.create_task(early.run())
        steps = await speak(doubting, keys, speech)
        await asyncio.gather(listening, late.run())
        assert all(event["correction"][0] >= event["words"][-1][0] for _, event in late.events if "correction" in event)
        return steps, [early, late]

    steps, listeners = play(scene)
    told = [(step.sentence, step.correction) for step in steps if step.correction]
    assert 1 < len(told) < 6
    assert [corrections(listener) for listener in listeners] == [told, told]
    assert {listener.text for listener in listeners} == {shown(steps)}  # a correction is no part of the text
    before = doubting.service.open_rooms.find_key("listener", keys["listener"]).tracks["toy"]
    doubting.service.open_rooms.close()
    again = Rooms(folder=tmp_path / "rooms")
    after = again.find_key("listener", keys["listener"]).tracks["toy"]
    assert after.since(-1) == before.since(-1)
    assert list(after.words()) == list(before.words())
    again.close()


def test_whole_texts_have_them_too(doubting: Running, speech: str) -> None:
    """Beside the sentence, not in its text; the same ones that a stream gets."""

    async def scene() -> list[Step]:
        async with Client(doubting.url) as client:
            return [step async for step in client.stream([speech])]

    steps = play(scene)
    told = {step.sentence: step.correction for step in steps if step.correction}
    answer = call("POST", f"{doubting.http}/v1/translate", {"text": speech})
    assert 1 < len(told) < len(answer["sentences"])
    assert {n: one["correction"] for n, one in enumerate(answer["sentences"]) if "correction" in one} == told
    assert answer["text"] == shown(steps).strip()


def test_a_speaker_who_comes_back_corrects_nothing_twice(doubting: Running, keys: dict[str, Any], speech: str) -> None:
    async def scene() -> tuple[list[Step], Listener]:
        half, steps = len(speech) // 2, []
        async with Client(doubting.url, room=keys["speaker"]) as client:
            listener = Listener(doubting.port, keys["listener"])
            listening = asyncio.create_task(listener.run())
            await client.feed(speech[:half])
            while not any(step.correction for step in steps):
                steps.append(await anext(client))
            assert client.socket is not None
            client.socket.transport.abort()
            await client.feed(speech[half:])
            await client.finish()
            steps += [step async for step in client]
        await listening
        assert client.reconnects == 1
        return steps, listener

    steps, listener = play(scene)
    assert corrections(listener) == [(step.sentence, step.correction) for step in steps if step.correction]


def test_files_and_services_get_them_as_plain_text(
    doubting: Running, keys: dict[str, Any], tmp_path: Path, speech: str
) -> None:
    places = [str(tmp_path / "talk.vtt"), str(tmp_path / "talk.srt")]
    with caption_service("", "503", "lost") as (service, url):
        command = carried(keys["link"], *places, f"zoom:{url}")
        until(lambda: doubting.service.open_rooms.find_key("listener", keys["listener"]).listeners == 3)
        steps = play(lambda: speak(doubting, keys, speech))
        assert ended(command) == 0
        assert service.wrong == []
    said = flat(shown(steps, corrections=True))
    assert " — correction: " in said
    name, _, token = keys["listener"].partition(".")
    for place in map(Path, places):
        whole = call("GET", f"{doubting.http}/v1/rooms/{name}/captions{place.suffix}?token={token}").decode()
        assert place.read_text("utf-8") == whole
        lines = [line for line in whole.removeprefix("WEBVTT").splitlines() if "-->" not in line]
        assert flat(" ".join(line for line in lines if not line.isdecimal())) == said
    assert flat(" ".join(service.shown)) == said
    assert all(len(line) < 50 for line in service.shown)


@pytest.mark.parametrize("taken", [1, 3, 4, 5, 6, 7, 8])
def test_a_command_that_ends_in_a_correction_goes_on_in_it(
    doubting: Running,
    keys: dict[str, Any],
    tmp_path: Path,
    speech: str,
    monkeypatch: pytest.MonkeyPatch,
    taken: int,
) -> None:
    """The service takes some lines and then none, until the command gives up; started again, it goes on with the next word."""
    patient = sinks.PostSink.__init__
    monkeypatch.setattr(sinks.PostSink, "__init__", lambda *given: patient(*given, patience=0.05))
    with caption_service() as (service, url):
        service._faults = itertools.chain([""] * taken, itertools.repeat("503"))  # type: ignore[assignment]
        flags = {"state": str(tmp_path / "state")}
        command = carried(keys["link"], f"zoom:{url}", **flags)
        until(lambda: doubting.service.open_rooms.find_key("listener", keys["listener"]).listeners)
        steps = play(lambda: speak(doubting, keys, speech))
        assert ended(command) == 1
        assert len(service.shown) == taken
        service._faults = itertools.repeat("")  # type: ignore[assignment]
        assert main(["captions", "--room", keys["link"], "--to", f"zoom:{url}", "--state", flags["state"]]) == 0
        assert shown_by(service) == flat(shown(steps, corrections=True))


def shown_by(service: CaptionService) -> str:
    assert service.wrong == []
    return flat(" ".join(service.shown))


def test_who_comes_late_to_a_service_gets_what_comes_from_now_on(doubting: Running, keys: dict[str, Any]) -> None:
    """The words of corrections that came before are not sent either."""
    with caption_service() as (service, url):
        steps = play(lambda: speak(doubting, keys, "te riki nakoru ."))
        assert steps[-1].correction
        room = doubting.service.open_rooms.find_key("listener", keys["listener"])
        room.tracks["toy"].final = False  # as when the speaker only pauses
        command = carried(keys["link"], f"zoom:{url}")
        until(lambda: room.listeners)
        said = play(lambda: speak(doubting, keys, "temo himaki muru te kumu tohiru ."))
        assert ended(command) == 0
        assert shown_by(service) == flat(shown(said, corrections=True))

"""The table by which operators size their machines is the one that was measured, and says what went wrong."""

from __future__ import annotations

import importlib
import json
from http import HTTPStatus
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from websockets.asyncio.server import Request, Response, ServerConnection, serve

from bethink.serve.protocol import Message, Refusal, dumps
from tests.serve.servers import play

ROOT = Path(__file__).parents[2]


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("live")


def test_the_published_table_is_the_measured_one(live: ModuleType) -> None:
    found = [
        json.loads(path.read_text("utf-8")) for path in sorted((ROOT / "benchmarks" / "results").glob("live-*.json"))
    ]
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    assert live.with_table(page, found) == page
    assert sum(len(results.get("levels", [])) for results in found) > 10


def test_streams_that_were_carried_got_exactly_their_words() -> None:
    for path in (ROOT / "benchmarks" / "results").glob("live-*.json"):
        for level in json.loads(path.read_text("utf-8")).get("levels", []):
            assert level["exact"] == level["streams"] - level["refused"], path.name


def test_the_published_parts_are_the_measured_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    parts = importlib.import_module("parts")
    found = json.loads((ROOT / "benchmarks" / "results" / "parts-de-en.json").read_text("utf-8"))
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    assert parts.between(parts.TABLE, page, parts.table(found)) == page


READY = {"type": "ready"}
UNHEARD = {"type": "step", "action": "WRITE", "text": "la", "sentence": 7, "heard": 7}  # of a word that nobody said


def level_with(live: ModuleType, *frames: Message, status: HTTPStatus | None = None) -> Any:
    """Two speakers of one word each, and a server that has only this to say, a frame for a frame."""

    def greet(connection: ServerConnection, _: Request) -> Response | None:
        return connection.respond(status, "") if status else None

    async def answer(socket: ServerConnection) -> None:
        for frame in frames:
            await socket.recv()  # `start`, the word, `end`
            await socket.send(dumps(frame))

    async def scene() -> Any:
        async with serve(answer, "127.0.0.1", 0, process_request=greet) as server:
            url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            fleet = SimpleNamespace(url=lambda _: url, policy="", cpu=0.0, megabytes=0.0)
            return await live.level(fleet, [SimpleNamespace(words=["te"], places=[(0, 0)], translation="")], 2, 0.0)

    return play(scene)


@pytest.mark.parametrize("code", ["full", "rate"])
def test_who_is_not_let_in_is_refused(live: ModuleType, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    one = level_with(live, Refusal(code, "").to_message())
    assert (one.refused, one.failed, one.exact) == (2, 0, 0)
    assert "failed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([Refusal("internal", "").to_message()], "internal"),
        ([READY, Refusal("slow", "").to_message()], "slow"),
        ([READY], "lost"),
        ([READY, UNHEARD, {"type": "final"}], "lost"),
    ],
)
def test_who_is_let_down_is_not_refused(
    live: ModuleType, frames: list[Message], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one = level_with(live, *frames)
    assert (one.refused, one.failed, one.exact) == (0, 2, 0)
    assert f"of 2 speakers 2 failed: {{'{reason}': 2}}" in capsys.readouterr().out


def test_a_handshake_can_be_refused_and_can_fail(live: ModuleType) -> None:
    full = level_with(live, status=HTTPStatus.SERVICE_UNAVAILABLE)
    assert (full.refused, full.failed) == (2, 0)
    broken = level_with(live, status=HTTPStatus.INTERNAL_SERVER_ERROR)
    assert (broken.refused, broken.failed) == (0, 2)


def test_whoever_is_carried_is_neither(live: ModuleType) -> None:
    one = level_with(live, READY, {"type": "final"})
    assert (one.refused, one.failed, one.exact) == (0, 0, 2)


def test_failures_are_published(live: ModuleType) -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "live-de-en-full.json").read_text("utf-8"))
    level = results["beyond"]["level"] | {"streams": 240, "refused": 120, "failed": 3}
    results |= {"levels": [level], "rush": results["rush"] | {"refused": 221, "failed": 4}}
    answers = {"full": 2994, "HTTP 503": 1, "ready": 3, "TimeoutError": 2}
    results["beyond"] |= {"level": level, "attempts": 3000, "seconds": 10.2, "answers": answers}
    text = live.with_table("".join(live.TABLE), [results])
    assert "| 240, 3 failed |" in text
    assert "120 were refused and 3 failed, and of 3,000 connections in the 10 s after them 2,995 and 2 failed;" in text
    assert "221 were refused and 4 failed;" in text

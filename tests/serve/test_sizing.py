"""The table by which operators size their machines is the one that was measured, and what measures it tells the truth."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bethink import Translator
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


@pytest.fixture
def fleet(live: ModuleType) -> Iterator[Any]:
    """A real server that takes two streams."""
    server = live.Server(str(ROOT / "models" / "toy"), "--threads", "1", "--max-streams", "2", "--max-drain", "1")
    try:
        yield live.Fleet([server], "")
    finally:
        server.process.kill()
        server.process.communicate()


def test_speakers_are_carried_or_refused(live: ModuleType, fleet: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made = live.talks(Translator(str(ROOT / "models" / "toy"), threads=1), "", 8)
    one = asyncio.run(live.level(fleet, made, 3, 0.0))
    assert (one.streams, one.refused, one.failed, one.exact) == (3, 1, 0, 2)
    assert 0 < one.p50 <= one.p95 <= one.worst
    assert one.server_cpu > 0
    assert one.megabytes > 10
    assert "failed" not in capsys.readouterr().out


def test_a_speaker_whose_server_dies_has_failed(live: ModuleType, fleet: Any) -> None:
    made = live.talks(Translator(str(ROOT / "models" / "toy"), threads=1), "", 40)

    async def scene() -> Any:
        speaking = asyncio.create_task(live.speaker(fleet.url(0), "", made[0], 0.0))
        await asyncio.sleep(1.5)
        fleet.servers[0].process.kill()
        await asyncio.to_thread(fleet.servers[0].process.wait)
        return await speaking

    told = play(scene)
    assert (told.failed, told.refused, told.exact) == ("lost", "", False)
    assert play(lambda: live.speaker(fleet.url(0), "", made[0], 0.0)).failed == "ConnectionRefusedError"


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

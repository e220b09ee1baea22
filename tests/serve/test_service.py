"""What streams share: the event loop, and what is measured of the engines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from bethink.aio import AsyncTranslator
from bethink.engine_thread import Counters
from bethink.serve.models import Model
from bethink.serve.protocol import Start
from bethink.serve.service import Service
from tests.serve.servers import play


async def read(messages: AsyncIterator[object]) -> None:
    async for _ in messages:
        pass


def fresh(model: Model, name: str) -> Model:
    return Model(name, model.translator, AsyncTranslator(model.translator))


def test_a_long_message_does_not_keep_the_others_waiting(model: Model) -> None:
    async def scene() -> int:
        turns = 0
        service = Service([fresh(model, "toy")])
        async with service.running():
            with service.stream(Start()) as handler:
                reading = asyncio.create_task(read(handler.messages()))
                feeding = asyncio.create_task(handler.feed("\u200b " * 10_000))
                while not feeding.done():
                    turns += 1
                    await asyncio.sleep(0)
                await handler.finish()
                await reading
        return turns

    assert play(scene) > 10


def test_an_engine_that_rests_is_not_measured(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bethink.serve.service.SAMPLE_EVERY", 0.001)
    looks = 0

    class Counted(Service):
        def counters(self) -> dict[str, Counters]:
            nonlocal looks
            looks += 1
            return super().counters()

    async def look(times: int) -> None:
        until = looks + times
        while looks < until:
            await asyncio.sleep(0.001)

    async def scene() -> None:
        service = Counted([fresh(model, "one"), fresh(model, "two")])

        def measured() -> float:
            return service.metrics.registry.get_sample_value("bethink_batch_size_count") or 0.0

        async with service.running():
            await service.models[0].live.translate("te riki nakoru .")
            await look(3)
            before = measured()
            assert before >= 1
            await look(20)
            assert measured() == before
            await service.models[1].live.translate("te .")
            await look(3)
            assert measured() > before

    play(scene)

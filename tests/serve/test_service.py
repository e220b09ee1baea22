"""What streams share: the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from bethink.aio import AsyncTranslator
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
                feeding = asyncio.create_task(handler.session.feed("\u200b " * 10_000))
                while not feeding.done():
                    turns += 1
                    await asyncio.sleep(0)
                await handler.session.finish()
                await reading
        return turns

    assert play(scene) > 2  # how often depends on the engine's thread; if feeding kept the loop, it would be once

"""Many speakers on one engine: each gets what it gets alone, nobody waits for another, and nothing hangs or piles up."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

import pytest

from bethink import engine_thread
from bethink.aio import AsyncSession, AsyncTranslator
from bethink.backend import Row, Rows
from bethink.errors import DataError, ModelError, UsageError
from bethink.policy import Action, parse
from bethink.text import Words
from bethink.trace import Step, shown
from bethink.translator import Translator
from tests.fake import FakeBackend

WORDS = Words([*"abcdefghij", "end.", ".", ","])
POLICIES = ["offline", "wait-k:2", "adaptive:0.9,0.2,5", "pe:k=1,rho=0.8,r=2", "pe-flip:2,0.3"]
TEXT = "a b c end. e f, g end. h i j\n\na b .\nc d e f g h i j a b c d"
LIMIT = 120  # seconds after which a test that hangs is ended


class Breaking(FakeBackend):
    """Fails at its n-th call, and never again; it is not called before everyone has spoken."""

    def __init__(self, at: int) -> None:
        super().__init__(1)
        self.at = at
        self.all_fed = threading.Event()

    def step(self, requests: Sequence[Rows]) -> list[list[Row]]:
        self.all_fed.wait(LIMIT)
        if len(self.calls) == self.at:
            self.calls.append(0)
            raise MemoryError("no room for the caches")
        return super().step(requests)


def translator(seed: int = 0, backend: FakeBackend | None = None, **settings: Any) -> Translator:
    backend = backend or FakeBackend(seed, **settings)
    return Translator.of(backend, WORDS, WORDS, name="fake", policy=parse("wait-k:2"))


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, LIMIT))


def cut(text: str, chance: random.Random) -> list[str]:
    edges = sorted(chance.randrange(len(text) + 1) for _ in range(chance.randrange(12)))
    return [text[a:b] for a, b in zip([0, *edges], [*edges, len(text)], strict=True)]


async def slowly(chunks: Sequence[str], chance: random.Random) -> AsyncIterator[str]:
    for chunk in chunks:
        await asyncio.sleep(chance.random() / 500)
        yield chunk


async def rest(session: AsyncSession) -> list[Step]:
    return [step async for step in session]


async def settled(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_steps_can_be_taken_by_the_handful(most: int) -> None:
    async def test() -> None:
        model = translator(3)
        async with AsyncTranslator(model) as live, live.session() as session:
            for _ in range(2):  # the steps of a text end with it
                feeding = asyncio.create_task(session.feed_all([TEXT]))
                taken: list[Step] = []
                while some := await session.some(most):
                    assert len(some) <= most
                    taken += some
                await feeding
                assert [step.token for step in taken] == [step.token for step in model.stream([TEXT])]

    run(test())


def test_each_speaker_gets_what_it_gets_alone() -> None:
    async def test() -> None:
        model, chance = translator(8), random.Random(8)
        jobs = [(policy, cut(TEXT, chance)) for policy in POLICIES for _ in range(6)]
        alone = [list(model.stream([TEXT], policy)) for policy, _ in jobs]

        async def one(live: AsyncTranslator, policy: str, chunks: list[str]) -> list[Step]:
            return [step async for step in live.stream(slowly(chunks, chance), policy)]

        async with AsyncTranslator(model, batch=4) as live:
            found = await asyncio.gather(*(one(live, *job) for job in jobs))
            assert list(found) == alone
            counters = live.counters()
            assert (counters.sessions, counters.ready, counters.queued) == (0, 0, 0)
            assert counters.written == sum(step.action is Action.WRITE for steps in alone for step in steps)
            assert 0 < counters.rounds <= counters.rows
            assert await live.translate(TEXT, "wait-k:1") == model.translate(TEXT, "wait-k:1")
        assert not model.backend.sources  # type: ignore[attr-defined]

    run(test())


def test_steps_say_when_they_were_made_and_how_long_their_word_had_waited() -> None:
    async def test() -> None:
        async with AsyncTranslator(translator(2)) as live, live.session("wait-k:1") as session:
            await session.feed("a b ")
            first = [await anext(session) for _ in range(2)]
            await asyncio.sleep(0.05)
            await session.finish()
            steps = first + await rest(session)
            assert [step.at for step in steps] == sorted(step.at for step in steps if step.at is not None)
            assert all(step.lag is not None and 0 <= step.lag <= step.at for step in steps if step.at is not None)
            ends = [n for n, step in enumerate(steps) if step.action is Action.READ][-1]
            late = [step.at - step.lag for step in steps[ends:] if step.at is not None and step.lag is not None]
            assert min(late) >= 49  # what follows the end is measured from the end, not from the last word

    run(test())


def test_what_is_no_text_is_refused() -> None:
    async def feed() -> None:
        async with AsyncTranslator(translator()) as live, live.session() as session:
            with pytest.raises(UsageError, match="the text must be a str, not NoneType"):
                await session.feed(None)  # type: ignore[arg-type]

    run(feed())


def test_a_session_can_be_used_again_after_each_text() -> None:
    async def test() -> None:
        async with AsyncTranslator(translator(1)) as live, live.session("wait-k:1") as session:
            await session.feed("a b c")
            await session.finish()
            await session.feed("a b c")
            await session.finish()
            first, again = await rest(session), await rest(session)
            assert shown(first) == shown(again)
            assert {step.sentence for step in again} == {1}
            await session.finish()
            assert await rest(session) == []

    run(test())


def test_a_policy_is_checked_at_once_and_used_from_the_next_sentence_on() -> None:
    async def test() -> None:
        model = translator(4)
        async with AsyncTranslator(model) as live, live.session("wait-k:1") as session:
            await session.feed("a b end. ")
            await settled(lambda: session._mailbox.session.resting and not session._mailbox.inbox)
            await session.change("offline")
            assert session.policy == parse("offline")
            await session.feed("c d e")
            await session.finish()
            steps = [step for step in await rest(session) if step.sentence == 1]
            assert [step.action for step in steps[:4]] == [Action.READ] * 4
            model.backend.capsules = False  # type: ignore[misc]
            with pytest.raises(ModelError, match="no capsules"):
                await session.change("pe")
            with pytest.raises(ModelError, match="no capsules"):
                live.session("pe")
            with pytest.raises(UsageError, match="Did you mean 'wait-k'"):
                live.session("waitk")
            assert live.counters().sessions == 1

    run(test())


def test_a_reader_who_stops_stops_only_its_own_stream() -> None:
    async def test() -> None:
        model = translator(3)
        async with AsyncTranslator(model, batch=2) as live, live.session("wait-k:1") as stuck:
            text = "a b c d end. " * 900
            feeding = asyncio.create_task(stuck.feed_all([text]))
            other = await live.translate(TEXT)
            assert other == model.translate(TEXT)
            await settled(lambda: stuck._mailbox.full and len(stuck._mailbox.inbox) == engine_thread.INBOX)
            await settled(lambda: not stuck._mailbox.session.moving)
            await asyncio.sleep(0.02)
            assert not feeding.done()
            longest = 3 * 120 + 51  # steps of one sentence
            assert engine_thread.OUTBOX <= len(stuck._mailbox.outbox) <= engine_thread.OUTBOX + longest
            rounds = live.counters().rounds
            await asyncio.sleep(0.02)
            assert live.counters().rounds == rounds  # a stalled stream costs nothing
            steps = await rest(stuck)
            await feeding
            assert shown(steps) == model.translate(text, "wait-k:1")

    run(test())


def test_changes_of_policy_wait_for_room_like_text() -> None:
    async def test() -> None:
        async with AsyncTranslator(translator(3)) as live, live.session("wait-k:1") as stuck:
            await stuck.feed("a b c d end. " * 200)  # and nobody reads
            await settled(lambda: stuck._mailbox.full and not stuck._mailbox.session.moving)
            changes = 0
            with contextlib.suppress(TimeoutError):
                while True:
                    await asyncio.wait_for(stuck.change(f"wait-k:{changes + 1}"), 0.2)
                    changes += 1
            assert 0 < changes < engine_thread.INBOX
            assert len(stuck._mailbox.inbox) == engine_thread.INBOX

    run(test())


def test_a_long_backlog_does_not_keep_others_waiting() -> None:
    async def test() -> None:
        async with AsyncTranslator(translator(5), batch=1) as live:
            hogs = [asyncio.create_task(live.translate("a b c d e f g h end. " * 500)) for _ in range(3)]
            await settled(lambda: live.counters().rounds > 50)
            for _ in range(5):
                assert await live.translate("a b c") == live.translator.translate("a b c")
            assert not any(task.done() for task in hogs)
            for task in hogs:
                task.cancel()
            await asyncio.wait(hogs)

    run(test())


def test_who_hangs_up_leaves_nothing_behind() -> None:
    async def test() -> None:
        model = translator(7)
        async with AsyncTranslator(model) as live:
            session = live.session("wait-k:3")
            await session.feed("a b c d e ")
            reading = asyncio.create_task(rest(session))
            await settled(lambda: live.counters().rounds > 0)
            session.close()
            session.close()
            assert all(step.action in Action for step in await reading)
            assert session.closed
            with pytest.raises(UsageError, match="closed"):
                await session.feed("f")
            await settled(lambda: not model.backend.sources)  # type: ignore[attr-defined]
            assert live.counters().sessions == 0

    run(test())


def test_a_cancelled_reader_or_speaker_leaves_nothing_behind() -> None:
    async def test() -> None:
        model = translator(7)
        async with AsyncTranslator(model) as live:

            async def forever() -> AsyncIterator[str]:
                while True:
                    yield "a b c end. "
                    await asyncio.sleep(0)

            async def read() -> None:
                async for _ in live.stream(forever()):
                    pass

            tasks = [asyncio.create_task(read()) for _ in range(5)]
            await settled(lambda: live.counters().written > 100)
            for task in tasks:
                task.cancel()
            assert all(
                isinstance(each, asyncio.CancelledError)
                for each in await asyncio.gather(*tasks, return_exceptions=True)
            )
            await settled(lambda: not model.backend.sources)  # type: ignore[attr-defined]
            async for _ in (steps := live.stream(forever())):
                break
            await steps.aclose()  # type: ignore[attr-defined]
            await settled(lambda: live.counters().sessions == 0)

    run(test())


@pytest.mark.parametrize("at", [0, 1, 7])
def test_a_model_that_fails_is_an_error_for_everyone_waiting_and_for_nobody_after(at: int) -> None:
    async def test() -> None:
        breaking = Breaking(at)
        model = translator(backend=breaking)
        async with AsyncTranslator(model) as live:
            sessions = [live.session("wait-k:1") for _ in range(3)]
            for session in sessions:
                await session.feed("a b c d e f g h i j " * 3)
            breaking.all_fed.set()
            for session in sessions:
                with pytest.raises(ModelError, match="failed with MemoryError: no room"):
                    await rest(session)
                with pytest.raises(ModelError, match="failed with MemoryError: no room"):
                    await session.feed("h")
            assert live.counters().failures == 1
            assert live.counters().sessions == 0
            assert not model.backend.sources  # type: ignore[attr-defined]
            assert await live.translate(TEXT) == model.translate(TEXT)

    run(test())


def test_a_source_that_fails_fails_its_reader() -> None:
    async def test() -> None:
        async def broken() -> AsyncIterator[str]:
            yield "a b c "
            raise DataError("the microphone is gone")

        async with AsyncTranslator(translator()) as live:
            with pytest.raises(DataError, match="the microphone is gone"):
                async for _ in live.stream(broken()):
                    pass

    run(test())


def test_a_source_that_is_cancelled_fails_its_reader() -> None:
    async def test() -> None:
        async def cancelled() -> AsyncIterator[str]:
            yield "a b c "
            raise asyncio.CancelledError

        async with AsyncTranslator(translator()) as live:
            with pytest.raises(UsageError, match="cancelled before the text was complete"):
                async for _ in live.stream(cancelled()):
                    pass
            session = live.session()
            feeding = asyncio.create_task(session.feed_all(slowly(["a "] * 10_000, random.Random(1))))
            await anext(session)
            feeding.cancel()
            with pytest.raises(UsageError, match="cancelled"):
                await rest(session)
            with pytest.raises(asyncio.CancelledError):
                await feeding
            assert live.counters().sessions == 0

    run(test())


def test_what_is_left_open_is_told() -> None:
    async def test() -> None:
        model = translator()
        with pytest.raises(UsageError, match="not open"):
            AsyncTranslator(model).session()
        async with AsyncTranslator(model) as live:
            with pytest.raises(UsageError, match="already open"):
                await live.__aenter__()
            session = live.session("wait-k:1")
            await session.feed("a b c ")
            reading = asyncio.create_task(rest(session))
            await settled(lambda: live.counters().written > 0)
        with pytest.raises(UsageError, match="closed while this session was open"):
            await reading
        assert not model.backend.sources  # type: ignore[attr-defined]
        with pytest.raises(UsageError, match="not open"):
            live.counters()

    run(test())


def test_a_model_is_found_by_its_name() -> None:
    async def test() -> None:
        async with AsyncTranslator("toy") as live:
            text = "te riki nakoru , ne ruru wa homuran haturu ."
            assert await live.translate(text) == Translator("toy").translate(text)
            assert live.translator.name == "toy"

    run(test())

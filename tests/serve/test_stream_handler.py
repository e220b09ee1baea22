"""A stream handler sends what a session does, sums up each sentence, and says how late words were."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bethink.aio import AsyncTranslator
from bethink.policy import Action
from bethink.serve.models import Model
from bethink.serve.protocol import Message, Refusal, Resume, Start
from bethink.serve.service import Service
from bethink.trace import ResumePoint, Step, Translation
from tests.serve.servers import play
from tests.serve.talk import shown, steps

TEXT = "te riki nakoru , ne ruru wa homuran haturu . temo tuti wa kinoru ."


def messages(model: Model, text: str, start: Start | None = None) -> list[Message]:
    """All that a client is told."""

    async def scene() -> list[Message]:
        service = Service([Model(model.name, model.translator, AsyncTranslator(model.translator))])
        async with service.running():
            with service.stream(start or Start()) as handler:
                await handler.session.feed(text)
                feeding = asyncio.create_task(handler.session.finish())
                got = [message async for batch in handler.messages() for message in batch]
                await feeding
                return got

    return play(scene)


def resume(model: Model, point: ResumePoint, **more: Any) -> Start:
    return Start(resume=Resume(model.identity, point, **({"seen": point.step} | more)))


def test_a_sentence_is_summed_up(model: Model) -> None:
    got = messages(model, TEXT)
    ends = [message for message in got if message["type"] == "sentence"]
    told = [Step.from_dict(step) for step in steps(got)]
    whole = [Translation.of([step for step in told if step.sentence == n]) for n in range(2)]
    assert [end["sentence"] for end in ends] == [0, 1]
    assert [end["words"] for end in ends] == [len(one.source) for one in whole] == [10, 5]
    assert [end["written"] for end in ends] == [len(one.delays) for one in whole]
    assert all(set(end["latency"]) == {"AL", "AP", "DAL", "CW"} for end in ends)
    resume = ends[0]["resume"]
    assert resume.pop("mark")
    assert resume.pop("session")
    assert resume == {
        "model": model.identity,
        "policy": str(model.translator.policy),
        "sentence": 1,
        "step": len(whole[0].steps),
        "offset": TEXT.index("temo"),
        "spoken": True,
    }
    final = got[-1]
    assert (final["steps"], final["sentences"], final["words"]) == (len(told), 2, 15)
    assert final["written"] == sum(end["written"] for end in ends)
    mean = sum(end["latency"]["AL"] for end in ends) / 2
    assert final["latency"]["AL"] == pytest.approx(mean, abs=0.001)
    assert 0 <= final["lag"]["mean"] <= final["lag"]["max"] <= 1000 * final["seconds"]


def test_a_text_that_goes_on_is_numbered_and_spaced_as_if_it_had_not_been_cut(model: Model) -> None:
    complete = messages(model, TEXT)
    point = ResumePoint(str(model.translator.policy), 1, 20, TEXT.index("temo"), spoken=True)
    again = messages(model, TEXT[point.offset :], resume(model, point))
    assert shown(again) == shown([step for step in complete if step.get("sentence") == 1])
    assert shown(again).startswith(" ")
    assert [step["n"] for step in steps(again)] == list(range(20, 20 + len(steps(again))))
    assert {step["sentence"] for step in steps(again)} == {1}
    assert again[-1]["sentences"] == 2


def test_what_a_client_has_seen_is_not_sent_again_but_compared(model: Model) -> None:
    told = steps(messages(model, TEXT))
    point = ResumePoint(str(model.translator.policy))
    rest = messages(model, TEXT, resume(model, point, seen=5, check=told[4]["check"]))
    assert [step["check"] for step in steps(rest)] == [step["check"] for step in told[5:]]
    with pytest.raises(Refusal, match="differently"):
        messages(model, TEXT, resume(model, point, seen=5, check=told[3]["check"]))


def test_words_that_show_nothing_do_not_count_as_late(model: Model) -> None:
    got = messages(model, "te")
    writes = [step for step in steps(got) if step["action"] == Action.WRITE]
    assert writes[-1]["end"]
    lags = [step["lag"] for step in writes if step["text"]]
    assert got[-1]["lag"] == {"mean": pytest.approx(sum(lags) / len(lags), abs=0.1), "max": max(lags)}

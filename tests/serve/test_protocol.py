"""Messages are read strictly and written without loss."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bethink.policy import Action, reasons
from bethink.serve.protocol import (
    Change,
    End,
    Refusal,
    Resume,
    Start,
    Text,
    dumps,
    read_request,
    resume_message,
    step_message,
)
from bethink.trace import ResumePoint, Step

POINT = ResumePoint("wait-k:k=3,rate=1.0", 2, 31, 120, spoken=True)
RESUME = resume_message("toy@1", POINT)


def test_requests() -> None:
    assert read_request('{"type":"text","text":"te riki","more":1}') == Text("te riki")
    assert read_request('{"type":"policy","policy":"wait-k:3"}') == Change("wait-k:3")
    assert read_request('{"type":"end"}') == End()
    assert read_request('{"type":"start","version":2}') == Start()
    resume = RESUME | {"seen": 40, "check": "00ff00ff"}
    frame = json.dumps({"type": "start", "version": 2, "model": "toy", "token": "secret", "resume": resume})
    assert read_request(frame) == Start("toy", token="secret", resume=Resume("toy@1", POINT, 40, "00ff00ff"))
    assert "secret" not in repr(read_request(frame))
    terms = '{"type":"start","version":2,"glossary":{"Haus":"home"}}'
    assert read_request(terms) == Start(glossary={"Haus": "home"})


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("", "invalid"),
        ("null", "invalid"),
        ("[]", "invalid"),
        ("{", "invalid"),
        ("[" * 60_000, "invalid"),
        ("1" * 5000, "invalid"),
        ("{}", "invalid"),
        ('{"type":"hello"}', "invalid"),
        ('{"type":7}', "invalid"),
        ('{"type":"text"}', "invalid"),
        ('{"type":"text","text":null}', "invalid"),
        ('{"type":"start"}', "invalid"),
        ('{"type":"start","version":true}', "invalid"),
        ('{"type":"start","version":1}', "version"),
        ('{"type":"start","version":2,"model":[]}', "invalid"),
        ('{"type":"start","version":2,"glossary":["Haus"]}', "invalid"),
        ('{"type":"start","version":2,"glossary":{"Haus":1}}', "invalid"),
        ('{"type":"start","version":2,"resume":{}}', "invalid"),
        ('{"type":"start","version":2,"resume":[1]}', "invalid"),
        (json.dumps({"type": "start", "version": 2, "resume": RESUME | {"seen": 3}}), "invalid"),
        (json.dumps({"type": "start", "version": 2, "resume": RESUME | {"seen": -3}}), "invalid"),
        (json.dumps({"type": "start", "version": 2, "resume": RESUME | {"seen": 10**30}}), "invalid"),
    ],
)
def test_what_is_no_request_is_refused(frame: str, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_request(frame)
    assert refused.value.code == code
    assert refused.value.close == 4400
    assert len(str(refused.value)) < 200


@given(st.text(max_size=200))
def test_any_frame_is_read_or_refused(frame: str) -> None:
    with contextlib.suppress(Refusal):
        assert isinstance(read_request(frame), Start | Text | Change | End)


def test_a_step_comes_back_as_it_went_and_says_nothing_in_vain() -> None:
    written = Step(
        Action.WRITE,
        token=17,
        read=3,
        heard=2,
        written=2,
        confidence=0.0,
        evidence=(1,),
        degrees=(0.25, 0.5, 0.0),
        gain=(0.0, 0.25, 0.0),
        sentence=1,
        text=" a",
        stability=0.0,
        n=3,
        at=12,
        lag=0,
    )
    message = json.loads(dumps(step_message(written, 0xAB)))
    assert Step.from_dict(message | {"unheard of": 1}) == written
    assert (message["type"], message["check"], message["n"], message["at"]) == ("step", "000000ab", 3, 12)
    assert {"end", "offset", "resume"}.isdisjoint(message)
    assert message["confidence"] == message["stability"] == message["lag"] == 0
    read = Step(Action.READ, 6, 1, 1, 0, n=0, offset=0, end=True)
    message = step_message(read, 0)
    assert (message["offset"], message["end"], message["text"]) == (0, True, "")
    assert Step.from_dict(message) == read


texts = st.text(st.one_of(st.characters(), st.sampled_from("\ud83d\ude00😀é")), max_size=30)


@given(texts)
def test_any_text_can_be_sent(text: str) -> None:
    sent = dumps({"text": text}).encode()
    assert json.loads(sent)["text"].encode("utf-16-le", "surrogatepass") == text.encode("utf-16-le", "surrogatepass")


def test_the_page_lists_every_reason() -> None:
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text("utf-8")
    listed = page.split("The codes of `reason`")[1].split("```json")[0]
    assert {code for code in reasons() if f"`{code}`" not in listed} == set()

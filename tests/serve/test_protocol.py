"""Messages are read strictly and written without loss."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bethink.policy import Action
from bethink.serve.protocol import (
    Change,
    End,
    LiveStep,
    Mark,
    Refusal,
    Resume,
    Start,
    Text,
    cut,
    dumps,
    read_request,
    units,
)

MARK = Mark("toy@1", "wait-k:k=3,rate=1.0", 2, 31, 120, spoken=True)


def test_requests() -> None:
    assert read_request('{"type":"text","text":"te riki","more":1}') == Text("te riki")
    assert read_request('{"type":"policy","policy":"wait-k:3"}') == Change("wait-k:3")
    assert read_request('{"type":"end"}') == End()
    assert read_request('{"type":"start","version":1}') == Start()
    resume = MARK.to_message() | {"seen": 40, "check": "00ff00ff"}
    frame = json.dumps({"type": "start", "version": 1, "model": "toy", "token": "secret", "resume": resume})
    assert read_request(frame) == Start("toy", token="secret", resume=Resume(MARK, 40, "00ff00ff"))
    assert "secret" not in repr(read_request(frame))


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
        ('{"type":"start","version":2}', "version"),
        ('{"type":"start","version":1,"model":[]}', "invalid"),
        ('{"type":"start","version":1,"resume":{}}', "invalid"),
        ('{"type":"start","version":1,"resume":[1]}', "invalid"),
        (json.dumps({"type": "start", "version": 1, "resume": MARK.to_message() | {"seen": 3}}), "invalid"),
        (json.dumps({"type": "start", "version": 1, "resume": MARK.to_message() | {"seen": -3}}), "invalid"),
        (json.dumps({"type": "start", "version": 1, "resume": MARK.to_message() | {"seen": 10**30}}), "invalid"),
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


def test_a_mark_comes_back_as_it_went() -> None:
    assert Mark.of(json.loads(dumps(MARK.to_message()))) == MARK


def test_a_step_comes_back_as_it_went_and_says_nothing_in_vain() -> None:
    step = LiveStep(
        3,
        1,
        Action.WRITE,
        " a",
        17,
        5,
        5,
        2,
        confidence=0.0,
        gain=((1, 0.25),),
        evidence=(1,),
        at=12,
        check="ab",
        stability=0.0,
    )
    message = step.to_message()
    assert LiveStep.of(json.loads(dumps(message))) == step
    assert {"end", "offset"}.isdisjoint(message)
    assert message["confidence"] == message["stability"] == 0.0
    read = LiveStep(0, 0, Action.READ, "te", 6, 1, 1, 0, offset=0)
    assert read.to_message()["offset"] == 0
    assert LiveStep.of(read.to_message()) == read


texts = st.text(st.one_of(st.characters(), st.sampled_from("\ud83d\ude00😀é")), max_size=30)


@given(texts, st.data())
def test_positions_do_not_depend_on_how_a_text_is_cut(whole: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, units(whole)))
    rest = cut(whole, place)
    raw = whole.encode("utf-16-le", "surrogatepass")
    assert rest.encode("utf-16-le", "surrogatepass") == raw[2 * place :]
    assert units(rest) == units(whole) - place


@given(texts)
def test_any_text_can_be_sent(text: str) -> None:
    sent = dumps({"text": text}).encode()
    assert json.loads(sent)["text"].encode("utf-16-le", "surrogatepass") == text.encode("utf-16-le", "surrogatepass")

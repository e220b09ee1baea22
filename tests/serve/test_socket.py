"""The socket says exactly what the translator says, in any chunks, under changing policies, and after any break."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bethink import Step, Translator, toy
from tests.serve.servers import Running, play, until
from tests.serve.talk import END, Message, core, shown, start, steps, talk, text, whole

SPEECH = " ".join(pair.source for pair in toy.sentences(3, seed=11))


@pytest.mark.parametrize(
    "policy", ["", "wait-k:k=3", "adaptive:rho_1=0.6", "pe:k=3,rho=0.24,r=2", "pe-flip:k=2", "offline"]
)
def test_steps_are_the_translators_own(server: Running, translator: Translator, policy: str) -> None:
    got = play(lambda: whole(server.url, text(SPEECH), policy=policy))
    expected = list(translator.stream([SPEECH], policy or None))
    assert [core(step) for step in steps(got)] == [core(step) for step in expected]
    assert [step["n"] for step in steps(got)] == list(range(len(expected)))
    assert shown(got) == translator.translate(SPEECH, policy or None)


def test_a_conversation_has_its_order(server: Running) -> None:
    got = play(lambda: whole(server.url, text("te riki nakoru . ne ruru ."), model="toy", policy="wait-k:2"))
    kinds = [message["type"] for message in got]
    assert kinds[0] == "ready"
    assert kinds[-1] == "final"
    assert kinds.count("sentence") == 2
    assert got[0]["policy"] == "wait-k:k=2,rate=1.0"
    assert got[0]["limits"]["message"] == server.service.limits.message
    assert got[-1]["steps"] == len(steps(got))
    assert got[-1]["sentences"] == 2
    assert got[-1]["lag"]["max"] >= got[-1]["lag"]["mean"] >= 0


@pytest.mark.parametrize("policy", ["pe:k=3,rho=0.24,r=2", "wait-k:k=3"])
def test_a_step_of_the_socket_is_the_step_of_the_translator(
    server: Running, translator: Translator, policy: str
) -> None:
    """All that it says, its place in the text included, but not the time, and numbers with four digits."""
    got = steps(play(lambda: whole(server.url, text(SPEECH), policy=policy)))
    expected = list(translator.stream([SPEECH], policy))
    assert any(step.degrees for step in expected)
    for message, own in zip(got, expected, strict=True):
        step, rounded = Step.from_dict(message), Step.from_dict(own.to_dict())
        assert step == rounded
        assert (step.n, step.offset, step.end) == (own.n, own.offset, own.end)
        assert step.at is not None
        assert step.lag is not None
        assert step.lag >= 0  # until the step is sent, so it may be longer than `at`, when the step was made


def test_read_steps_say_how_far_in_the_text(server: Running) -> None:
    spoken = "te 😀 riki nakoru ."
    got = [step for step in steps(play(lambda: whole(server.url, text(spoken)))) if step["action"] == "READ"]
    utf16 = spoken.encode("utf-16-le")
    read = [utf16[: 2 * step["offset"]].decode("utf-16-le").split() for step in got]
    assert [words[-1] for words in read[:-1]] == ["te", "😀", "riki", "nakoru", "."]
    assert got[-1]["end"] is True


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_chunks_give_the_same_steps(server: Running, translator: Translator, data: st.DataObject) -> None:
    spoken = "te 😀 riki nakoru . ne ruru\nwa homuran haturu . مرحبا kumu ."
    raw = spoken.encode("utf-16-le")
    places = sorted(data.draw(st.sets(st.integers(1, len(raw) // 2 - 1), max_size=12)))
    bounds = [0, *places, len(raw) // 2]
    chunks = [raw[2 * a : 2 * b].decode("utf-16-le", "surrogatepass") for a, b in itertools.pairwise(bounds)]
    got = play(lambda: whole(server.url, *(text(chunk) for chunk in chunks)))
    assert [core(step) for step in steps(got)] == [core(step) for step in translator.stream([spoken])]


def test_a_policy_holds_from_the_next_sentence_on(server: Running, translator: Translator) -> None:
    first, second, third = (pair.source for pair in toy.sentences(3, seed=12))
    change: Message = {"type": "policy", "policy": "wait-k:k=5"}
    half = len(second) // 2
    got = play(
        lambda: whole(
            server.url, text(f"{first} {second[:half]}"), change, text(f"{second[half:]} {third}"), policy="wait-k:k=1"
        )
    )
    expected = [*translator.stream([f"{first} {second}"], "wait-k:k=1")], [*translator.stream([third], "wait-k:k=5")]
    tokens = [(step["action"], step["token"]) for step in steps(got)]
    assert tokens == [(step.action.value, step.token) for part in expected for step in part]
    assert [message["resume"]["policy"] for message in got if message["type"] == "sentence"] == [
        "wait-k:k=1,rate=1.0",
        "wait-k:k=5,rate=1.0",
        "wait-k:k=5,rate=1.0",
    ]


def test_a_policy_changes_by_place_and_not_by_time(server: Running) -> None:
    """All is said at once, long before the first sentence is translated."""
    sentences = [pair.source for pair in toy.sentences(5, seed=13)]
    messages = [
        message
        for k, sentence in enumerate(sentences, 1)
        for message in ({"type": "policy", "policy": f"wait-k:{k}"}, text(f"{sentence} "))
    ]
    got = play(lambda: whole(server.url, *messages))
    firsts = [next(s for s in steps(got) if s["sentence"] == n and s["action"] == "WRITE")["read"] for n in range(5)]
    assert firsts == [1, 2, 3, 4, 5]


def test_an_impossible_policy_is_said_and_forgotten(server: Running, translator: Translator) -> None:
    got = play(
        lambda: whole(server.url, text("te riki "), {"type": "policy", "policy": "waitk"}, text("nakoru . ne ruru ."))
    )
    (error,) = [message for message in got if message["type"] == "error"]
    assert error["code"] == "policy"
    assert error["fatal"] is False
    assert "Did you mean 'wait-k'?" in error["message"]
    assert shown(got) == translator.translate("te riki nakoru . ne ruru .")


# after a break

TALK = [
    text("te riki nakoru , ne ruru wa homuran haturu . "),
    text("temo tuti wa kinoru , "),
    {"type": "policy", "policy": "wait-k:k=2"},
    text("ne sutuki noko nisiru . <i>te riki</i> nakoru . ne himu kiharu 😀"),
    {"type": "policy", "policy": "pe:k=2,rho=0.2,r=3"},
    text(" , temo himaki muru . te kumu tohiru ka ne raru wa hikaru"),
]


def after(messages: list[Message], offset: int) -> list[Message]:
    """What a client has kept: messages from a position on, changes of policy right at it included."""
    kept, place = [], 0
    for message in messages:
        size = len(message.get("text", "").encode("utf-16-le", "surrogatepass")) // 2
        if message["type"] == "policy":
            kept += [message] if place >= offset else []
        elif place + size > offset:
            raw = message["text"].encode("utf-16-le", "surrogatepass")[2 * max(0, offset - place) :]
            kept.append(text(raw.decode("utf-16-le", "surrogatepass")))
        place += size
    return kept


def test_going_on_after_any_step_gives_the_rest(server: Running) -> None:
    complete = play(lambda: whole(server.url, *TALK))
    told = steps(complete)

    async def resumed(seen: int) -> list[Message]:
        mark = complete[0]["resume"]
        for message in complete[1:]:
            if message["type"] == "sentence" and message["resume"]["step"] <= seen:
                mark = message["resume"]
        check = {"check": told[seen - 1]["check"]} if seen > mark["step"] else {}
        return await whole(server.url, *after(TALK, mark["offset"]), resume=mark | {"seen": seen} | check)

    async def all_of_them() -> list[list[Message]]:
        return await asyncio.gather(*(resumed(seen) for seen in range(len(told) + 1)))

    def timeless(step: Message) -> Message:
        return {name: value for name, value in step.items() if name not in ("at", "lag")}

    for seen, got in enumerate(play(all_of_them)):
        assert [timeless(step) for step in steps(got)] == [timeless(step) for step in told[seen:]], seen
        assert got[-1]["steps"] == len(told)
        assert got[-1]["sentences"] == complete[-1]["sentences"]


def test_a_server_that_cannot_go_on_exactly_says_so(server: Running) -> None:
    ready = play(lambda: whole(server.url))[0]
    other = ready["resume"] | {"model": "toy@000000000000", "seen": 0}
    assert play(lambda: whole(server.url, resume=other))[0]["code"] == "changed"
    wrong = ready["resume"] | {"seen": 2, "check": "00000000"}
    got = play(lambda: whole(server.url, text("te riki nakoru ."), resume=wrong))
    assert got[-1]["code"] == "diverged"
    assert not steps(got)


def test_a_client_that_goes_away_leaves_nothing(server: Running) -> None:
    async def leave() -> None:
        async with talk(server.url) as client:
            await client.say(start(), text("te riki nakoru "))
            await client.hear()
            client.socket.transport.abort()

    for _ in range(5):
        play(leave)
    play(lambda: whole(server.url, text("te riki nakoru ."), END))
    until(lambda: not server.service.streams)
    assert server.metric("bethink_streams") == 0

"""A room's track: numbered words that a stream adds once, whatever it takes again, and that listeners get without a gap."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bethink.policy import Action
from bethink.serve.protocol import Refusal, Resume, checked
from bethink.serve.track import Track
from bethink.trace import ResumePoint, Step


def nowhere(_: object) -> None:
    """What a room without a log does with an entry."""


def steps(words: list[str], begin: int = 0, sentence: int = 0) -> list[Step]:
    """A READ and a WRITE for each word, and the end of the sentence."""
    made = []
    for word in [*words, ""]:
        for action in (Action.READ, Action.WRITE):
            n = begin + len(made)
            end = not word and action is Action.WRITE
            text = f" {word}" if word and action is Action.WRITE else ""
            made.append(Step(action, n, n, n, n, sentence=sentence, text=text, end=end, n=n))
    return made


def write(track: Track, taken: list[Step], writer: object, check: int = 0) -> int:
    for step in taken:
        check = checked(check, step)
        track.add(step, check, now=10 * (step.n or 0))
    track.publish(writer)
    return check


def resume(step: int, seen: int = 0) -> Resume:
    return Resume("toy@1", ResumePoint("offline", step=step), max(step, seen))


def told(raw: bytes) -> list[tuple[int, dict[str, Any]]]:
    events = []
    for event in raw.decode().split("\n\n")[:-1]:
        number, data = event.split("\n")
        events.append((int(number.removeprefix("id: ")), json.loads(data.removeprefix("data: "))))
    return events


def text(raw: bytes) -> str:
    return "".join(word for _, event in told(raw) for _, word in event["words"])


@given(st.lists(st.integers(-1, 30), max_size=8), st.integers(1, 5))
def test_every_place_to_come_back_to_gives_the_rest(places: list[int], size: int) -> None:
    log: list[dict[str, Any]] = []
    track = Track("toy", log.append)
    track.begin("offline", self := object())
    check, seen, after = 0, "", -1
    taken = steps(["one", "two", "three", "four"]) + steps(["five", "six"], 10, 1)
    for begin in range(0, len(taken), size):
        check = write(track, taken[begin : begin + size], self, check)
        raw, after = track.since(after)
        seen += text(raw)
    whole, last = track.since(-1)
    assert seen == text(whole) == " one two three four five six"
    for place in places:
        words = "".join(step.text for step in taken if step.n is not None and step.n > place)
        assert text(track.since(place)[0]) == words
    assert track.since(last) == (b"", last)
    again = Track("toy", nowhere)
    for entry in log:
        again.restore(json.loads(json.dumps(entry)))
    assert again.since(-1) == track.since(-1)


def test_steps_taken_again_are_shown_once() -> None:
    track = Track("toy", nowhere)
    taken = steps(["one", "two", "three"])
    track.begin("offline", first := object())
    write(track, taken[:5], first)
    raw, after = track.since(-1)
    track.resume(resume(0, 3), second := object())
    write(track, taken, second)
    rest, _ = track.since(after)
    assert text(raw) + text(rest) == " one two three"
    with pytest.raises(Refusal, match="another stream speaks"):
        track.publish(first)


def test_other_steps_than_before_are_refused() -> None:
    track = Track("toy", nowhere)
    track.begin("offline", first := object())
    write(track, steps(["one", "two"])[:4], first)
    track.resume(resume(0), second := object())
    with pytest.raises(Refusal, match="differently") as refused:
        write(track, steps(["one", "two"])[:2] + steps(["x", "y", "z"], 1)[1:], second)
    assert refused.value.code == "diverged"
    assert text(track.since(-1)[0]) == " one two"


def test_a_new_stream_counts_on_and_shuts_the_old_one_out() -> None:
    track = Track("toy", nowhere)
    track.begin("offline", first := object())
    write(track, steps(["one", "two"])[:4], first)  # the sentence stays open
    point = track.begin("offline", second := object())
    assert (point.step, point.sentence, point.spoken) == (5, 1, True)
    write(track, steps(["three"], point.step, point.sentence), second)
    assert [(n, event.get("end")) for n, event in told(track.since(-1)[0])] == [(4, True), (8, True)]
    with pytest.raises(Refusal) as refused:
        track.resume(resume(0), first)
    assert refused.value.code == "replaced"
    track.resume(resume(point.step), second)


def test_a_correction_comes_with_the_end_of_its_sentence() -> None:
    log: list[dict[str, Any]] = []
    track = Track("toy", log.append)
    track.begin("offline", self := object())
    *some, last = steps(["one", "two"])
    check = write(track, some, self)
    _, after = track.since(-1)
    write(track, [replace(last, correction="not two")], self, check)
    for place in (-1, after):
        *_, (_, event) = told(track.since(place)[0])
        assert (event["end"], event["correction"]) == (True, [50, "not two"])
    assert [word.text for word, _ in track.words()] == [" one", " two", " —", " correction:", " not", " two"]
    assert [ends for _, ends in track.words()] == [False, True, False, False, False, True]
    assert track.since(track.since(-1)[1]) == (b"", 5)
    again = Track("toy", nowhere)
    for entry in log:
        again.restore(json.loads(json.dumps(entry)))
    assert again.since(-1) == track.since(-1)
    with pytest.raises(ValueError, match="unpack"):
        again.restore({"s": 1, "n": 9, "c": "", "w": [], "e": 1, "k": []})


def test_stability_goes_with_the_words_that_have_one() -> None:
    log: list[dict[str, Any]] = []
    track = Track("toy", log.append)
    track.begin("offline", self := object())
    taken = [replace(step, text_stability=0.71236 if step.n == 3 else None) for step in steps(["one", "two", "three"])]
    write(track, taken, self)
    ((_, event),) = told(track.since(-1)[0])
    assert event["words"] == [[10, " one"], [30, " two"], [50, " three"]]
    assert event["stability"] == [None, 0.7124, None]
    ((_, rest),) = told(track.since(4)[0])
    assert "stability" not in rest
    again = Track("toy", nowhere)
    for entry in log:
        again.restore(json.loads(json.dumps(entry)))
    assert again.since(-1) == track.since(-1)


def test_equal_places_share_their_bytes() -> None:
    track = Track("toy", nowhere)
    track.begin("offline", self := object())
    write(track, steps(["one", "two"])[:4], self)
    assert track.sentences[0].event(-1) is track.sentences[0].event(-1)


@pytest.mark.parametrize("entry", [{}, {"s": 0, "n": 1, "c": "", "w": [[1, 2]]}, {"s": 0, "n": "x", "c": "", "w": []}])
def test_what_is_no_entry(entry: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Track("toy", nowhere).restore(entry)

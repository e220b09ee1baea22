"""Captions: no word is lost or doubled, lines are short, times do not overlap, and live gives what the end gives."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bethink.errors import UsageError
from bethink.text.captions import Captions, Cue, Layout, Lines, SubRip, WebVTT, cues, written

Timed = tuple[int, str, bool, bool]

words = st.lists(
    st.tuples(
        st.integers(0, 9000),  # milliseconds since the word before
        st.sampled_from(
            [" a", " word", " considerations", ",", ".", " " + 2 * "Donaudampfschifffahrtsgesellschaft", " two parts"]
        ),
        st.sampled_from([False, False, False, True]),
        st.booleans(),
    ),
    max_size=60,
)


def timed(made: list[Timed]) -> list[Timed]:
    at, told = 0, []
    for gap, text, end, doubt in made:
        at += gap
        told.append((at, text, end, doubt))
    return told


def flat(text: str) -> str:
    return "".join(text.split())


def fits(line: str, width: int) -> bool:
    """Punctuation at the end may stick out, and a single word may be longer than a line."""
    return len(line.rstrip(",.")) <= width or " " not in line


@given(words)
def test_what_captions_promise(made: list[Timed]) -> None:
    told, layout = timed(made), Layout()
    found = cues(told)
    assert flat("".join(cue.text for cue in found)) == flat("".join(text for _, text, _, _ in told))
    for cue, after in itertools.pairwise([*found, Cue(10**9, 10**9, "")]):
        assert cue.start + layout.shortest <= cue.end <= after.start
        lines = cue.text.split("\n")
        assert all(lines)
        assert all(fits(line, layout.width) for line in lines)
        assert len(lines) <= layout.lines or any(len(line) > layout.width for line in lines)


@given(words, st.lists(st.integers(0, 4000), min_size=1, max_size=5))
def test_live_is_what_the_end_gives(made: list[Timed], looks: list[int]) -> None:
    """However often one looks at the clock in between, as long as it is never ahead of the next word."""
    told, captions, found = timed(made), Captions(), []
    for number, (at, text, end, doubt) in enumerate(told):
        found += captions.add(at, text, doubt=doubt)
        until = told[number + 1][0] if number + 1 < len(told) else at
        for place, look in enumerate(looks):
            found += captions.end() if end and place == len(looks) // 2 else []  # known a little later than the word
            found += captions.wait(min(at + look, until))
    assert found + captions.finish() == cues(told)


@given(words, st.integers(10, 60))
def test_lines_lose_and_double_nothing(made: list[Timed], width: int) -> None:
    lines, found = Lines(width), []
    for at, text, end, _ in timed(made):
        found += lines.wait(at)
        found += lines.add(at, text)
        found += lines.end() if end else []
    found += lines.finish()
    assert flat("".join(found)) == flat("".join(text for _, text, _, _ in made))
    assert all(fits(line, width) for line in found)


def test_a_line_goes_out_when_it_is_full_or_its_sentence_ends_or_in_time() -> None:
    lines = Lines(width=12, hold=2000)
    assert lines.add(0, " Good") == []
    assert lines.add(100, " morning") == []  # "Good morning" has 12 characters
    assert lines.add(200, ",") == []
    assert lines.add(300, " ladies") == ["Good morning,"]
    assert lines.wait(2299) == []
    assert lines.wait(2300) == ["ladies"]
    assert lines.add(5000, " and.") + lines.end() == ["and."]


def test_a_cue_is_broken_in_the_middle() -> None:
    text = " The committee rejects the proposal because it costs too much."
    [cue] = cues([(1000, text, True, False)])
    first, second = cue.text.split("\n")
    assert abs(len(first) - len(second)) < 12
    assert cue.start == 1000
    assert cue.end == 1000 + 1000 * 61 // 15


def test_formats() -> None:
    made = [Cue(0, 1500, "a < b & c"), Cue(3_723_456, 3_725_000, "two\nlines")]
    assert written(made, WebVTT) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\na &lt; b &amp; c\n\n01:02:03.456 --> 01:02:05.000\ntwo\nlines\n\n"
    )
    assert written(made, SubRip) == (
        "1\n00:00:00,000 --> 00:00:01,500\na < b & c\n\n2\n01:02:03,456 --> 01:02:05,000\ntwo\nlines\n\n"
    )
    assert written([], WebVTT) == "WEBVTT\n\n"


@given(words)
def test_marks_are_on_the_doubtful_words_and_on_nothing_else(made: list[Timed]) -> None:
    told = timed(made)
    plain = cues((at, text, end, False) for at, text, end, _ in told)
    found = cues(told)
    assert [Cue(cue.start, cue.end, cue.text) for cue in found] == plain
    marked = [cue.text[begin:end] for cue in found for begin, end in cue.doubts]
    wanted = [text.strip() for _, text, _, doubt in told if doubt and text.strip(" ,.")]
    assert [flat(each) for each in marked] == [flat(each) for each in wanted]
    assert re.sub("</?c(?:[.]doubt)?>", "", written(found, WebVTT)) == written(plain, WebVTT)
    assert written(found, SubRip) == written(plain, SubRip)


def test_a_mark_leaves_out_what_joins_the_word_before() -> None:
    made = cues([(0, " Good", False, False), (10, ", R&D", False, True), (20, ".", True, True)])
    assert written(made, WebVTT).splitlines()[3] == "Good, <c.doubt>R&amp;D</c>."


def test_settings_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="'width' is 0"):
        Layout(width=0)

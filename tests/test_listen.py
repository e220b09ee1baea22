"""The Listener passes on stable words only, never takes one back, and loses none; the formats of four recognisers are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bethink.errors import DataError, UsageError
from bethink.listen import Listener, StableWord
from bethink.recognisers import RECOGNISERS, Record, Records, detect

RECORDING = Path(__file__).parent / "recordings" / "moonshine.jsonl"

WORDS = st.lists(st.sampled_from(["a", "b", "c", "da", "Da", "e,"]), max_size=8)
SETTINGS = st.fixed_dictionaries({"agree": st.integers(1, 3), "hold": st.integers(0, 2), "longest": st.integers(1, 50)})


def partial(words: Iterable[str]) -> dict[str, Any]:
    return {"partial": " ".join(words)}


def final(words: Iterable[str]) -> dict[str, Any]:
    return {"text": " ".join(words)}


def heard(listener: Listener, records: Iterable[Record]) -> list[StableWord]:
    passed = [word for at, record in enumerate(records) for word in listener.feed(record, 100.0 * at)]
    return passed + listener.finish(1e6)


def words_of(passed: Iterable[StableWord]) -> list[str]:
    return [word.text for word in passed if word.text != "\n"]


def text_of(passed: Iterable[StableWord]) -> str:
    return "".join(word.text if word.text == "\n" else f"{word.text} " for word in passed)


def edits(one: list[str], two: list[str]) -> int:
    """Written apart from the one under test, and slower."""
    one, two = [word.lower().strip(",") for word in one], [word.lower().strip(",") for word in two]
    table = [[i + j if i * j == 0 else 0 for j in range(len(two) + 1)] for i in range(len(one) + 1)]
    for i in range(1, len(one) + 1):
        for j in range(1, len(two) + 1):
            kept = table[i - 1][j - 1] + (one[i - 1] != two[j - 1])
            table[i][j] = min(kept, table[i - 1][j] + 1, table[i][j - 1] + 1)
    return table[-1][-1]


def test_a_word_is_passed_on_when_two_guesses_agree_and_another_word_follows() -> None:
    listener = Listener("vosk")
    assert listener.feed({"partial": "wir"}, 0) == []
    assert [word.text for word in listener.feed({"partial": "wir gehen"}, 100)] == ["wir"]
    assert listener.feed({"partial": "wir gehen"}, 150) == []  # agreed, but it may be the beginning of a longer word
    passed = listener.feed({"partial": "wir gehen nach haus"}, 300)
    assert [(word.text, word.waited, word.behind) for word in passed] == [("gehen", 200, 2)]


def test_a_changed_word_is_not_taken_back_and_what_follows_is_not_lost() -> None:
    listener = Listener("vosk", hold=0)
    passed = heard(
        listener, [partial(["we", "need"]), partial(["we", "need"]), final(["any", "poem", "and", "trains"])]
    )
    assert text_of(passed) == "we need and trains \n"
    assert listener.delays.changed == 2


@given(st.lists(st.tuples(st.lists(WORDS, max_size=5), WORDS), max_size=4), SETTINGS)
def test_what_differs_from_the_final_text_is_only_what_was_passed_on_before(
    talk: list[tuple[list[list[str]], list[str]]], settings: dict[str, int]
) -> None:
    """Whatever the guesses were: words come at most once, in order, and the edits against the final text are those counted."""
    listener = Listener("vosk", **settings)
    for guesses, fixed in talk:
        before = listener.delays.changed
        passed = [word for guess in guesses for word in listener.feed(partial(guess), 0)]
        passed += listener.feed(final(fixed), 0)
        assert edits(words_of(passed), fixed) <= listener.delays.changed - before
    assert words_of(listener.finish(0)) == []


@given(WORDS, st.lists(st.integers(0, 8)), SETTINGS, st.booleans())
def test_guesses_that_never_change_their_words_give_exactly_these(
    words: list[str], ends: list[int], settings: dict[str, int], ended: bool
) -> None:
    listener = Listener("vosk", **settings)
    guesses = [partial(words[:end]) for end in sorted(ends)] + [partial(words)]
    assert words_of(heard(listener, [*guesses, final(words)] if ended else guesses)) == words
    assert listener.delays.changed == 0


@given(st.lists(WORDS, min_size=1), SETTINGS)
def test_more_agreement_never_comes_earlier(guesses: list[list[str]], settings: dict[str, int]) -> None:
    first = Listener("vosk", **settings)
    surer = Listener("vosk", **settings | {"agree": settings["agree"] + 1})
    early = late = 0
    for guess in guesses:
        early += len(words_of(first.feed(partial(guess), 0)))
        late += len(words_of(surer.feed(partial(guess), 0)))
        if early == 0:
            assert late == 0


def test_pauses_final_results_and_length_end_sentences_where_no_full_stops_are_written() -> None:
    times = [("guten", 0.1, 0.4), ("tag", 0.5, 0.8), ("heute", 1.6, 1.9), ("beginnen", 1.9, 2.4), ("wir", 2.5, 2.6)]
    timed = {"text": "…", "result": [{"word": word, "start": start, "end": end} for word, start, end in times]}
    assert text_of(heard(Listener(), [timed, final(["ja"])])) == "guten tag \nheute beginnen wir \nja \n"
    assert text_of(heard(Listener(longest=2), [timed])) == "guten tag \nheute beginnen \nwir \n"
    assert text_of(heard(Listener(pause=3), [timed])) == "guten tag heute beginnen wir \n"


def test_full_stops_decide_where_they_are_written() -> None:
    passed = heard(Listener(), [final(["Guten", "Tag."]), final(["Heute", "beginnen"]), final(["wir", "neu."])])
    assert text_of(passed) == "Guten Tag. \nHeute beginnen wir neu. \n"
    late = [partial(["Ja."]), final(["Ja."]), *[partial(["so", "ist", "es", "x"])] * 2, final(["so", "ist", "es."])]
    assert text_of(heard(Listener(), late)) == "Ja. \nso ist es \n"  # the stop that came late still ends the sentence


def test_the_recorded_stream_of_a_real_recogniser() -> None:
    """Moonshine on synthesised speech: half of its first guesses were wrong; two guesses that agree seldom are."""
    records = [json.loads(line) for line in RECORDING.read_text("utf-8").splitlines()]

    def run(agree: int, hold: int) -> Listener:
        listener = Listener(agree=agree, hold=hold)
        for record in records:
            listener.feed(record, record["at"])
        listener.finish(records[-1]["at"])
        return listener

    eager, normal, careful = run(1, 0), run(2, 1), run(3, 1)
    assert eager.format == "vosk"
    assert eager.delays.changed > 0.3 * eager.delays.words
    assert normal.delays.changed < 0.1 * normal.delays.words
    assert careful.delays.changed < 0.05 * careful.delays.words
    assert eager.delays.milliseconds(0.5) < normal.delays.milliseconds(0.5) < careful.delays.milliseconds(0.5)
    fixed = sum(len(record["text"].split()) for record in records if "text" in record)
    assert abs(careful.delays.words - fixed) <= careful.delays.changed


def test_browser_dictation() -> None:
    def event(index: int, *results: tuple[str, bool]) -> dict[str, Any]:
        return {"resultIndex": index, "results": [{"isFinal": done, "transcript": text} for text, done in results]}

    records: list[Record] = [
        event(0, ("guten", False)),
        event(0, ("guten morgen", False), (" alle", False)),
        event(0, ("guten morgen", True), (" alle hier", False)),
        event(1, ("guten morgen", True), (" alle hier", True)),
        event(0, ("danke", True)),  # the browser stopped and began again
        {
            "resultIndex": 1,
            "results": [
                {"isFinal": True, "0": {"transcript": "danke"}},
                {"isFinal": True, "0": {"transcript": "sehr"}},
            ],
        },
    ]
    assert text_of(heard(Listener(), records)) == "guten morgen alle hier \ndanke \nsehr \n"
    simple: list[Record] = [{"transcript": "gut", "isFinal": False}, {"transcript": "guten tag", "isFinal": True}]
    assert text_of(heard(Listener(), simple)) == "guten tag \n"


def line(text: str | None, speaker: int = 1) -> dict[str, Any]:
    return {"speaker": speaker, "text": text, "start": "0:00:00", "end": "0:00:03"}


def state(*lines: Mapping[str, Any], buffer: str = "", **more: Any) -> dict[str, Any]:
    return {
        "status": "active_transcription",
        "lines": list(lines),
        "buffer_transcription": buffer,
        "buffer_diarization": "",
    } | more


FULL: list[Record] = [
    {"type": "config", "useAudioWorklet": True, "mode": "full"},
    state(buffer="Guten"),
    state(line("Guten Morgen,"), buffer="meine"),
    state(line("Guten Morgen, meine Damen."), buffer=""),
    state(line("Guten Morgen, meine Damen."), line(None, -2), line("Wir"), buffer="beginnen"),
    state(line("Guten Morgen, meine Damen."), line(None, -2), line("Wir beginnen jetzt.")),
    {"type": "ready_to_stop"},
]
DIFF: list[Record] = [
    {"type": "config", "useAudioWorklet": True, "mode": "diff"},
    state(line("Guten Morgen,"), buffer="meine", type="snapshot", seq=1),
    {"type": "diff", "seq": 2, "n_lines": 1, "new_lines": [line("Guten Morgen, meine Damen.")], "buffer_transcription": ""},
    {"type": "diff", "seq": 3, "n_lines": 3, "new_lines": [line(None, -2), line("Wir")], "buffer_transcription": "beginnen"},
    {"type": "diff", "seq": 4, "n_lines": 1, "lines_pruned": 2, "new_lines": [line("Wir beginnen jetzt.")], "buffer_transcription": ""},
]  # fmt: skip


@pytest.mark.parametrize("records", [FULL, DIFF], ids=["full", "diff"])
def test_whisperlivekit(records: list[Record]) -> None:
    assert text_of(heard(Listener(), records)) == "Guten Morgen, meine Damen. \nWir beginnen jetzt. \n"


def test_whisper_cpp_prints_a_line_again_and_again() -> None:
    clear = f"\x1b[2K\r{' ' * 100}\x1b[2K\r"
    printed = f"[Start speaking]\n{clear} Guten{clear} Guten Morgen,{clear} Guten Morgen, meine Damen [BLANK_AUDIO]\n"
    printed += f"{clear} und{clear} und Herren.\n"
    records = Records()
    found = [record for character in printed for record in records.feed(character)]
    assert text_of(heard(Listener(), [*found, *records.finish()])) == "Guten Morgen, meine Damen und Herren. \n"


def test_whisper_cpp_blocks_that_overlap() -> None:
    printed = """
### Transcription 0 START | t0 = 0 ms | t1 = 4000 ms

[00:00:00.000 --> 00:00:02.000]  Guten Morgen.
[00:00:02.000 --> 00:00:04.000]  Wir fangen an.

### Transcription 0 END

### Transcription 1 START | t0 = 2000 ms | t1 = 6000 ms

[00:00:00.000 --> 00:00:02.000]  Wir fangen an.
[00:00:02.000 --> 00:00:04.000]  Danke.

### Transcription 1 END
"""
    passed = heard(Listener(), list(Records().feed(printed)))
    assert text_of(passed) == "Guten Morgen. \nWir fangen an. \nDanke. \n"
    assert [word.start for word in passed if word.text == "Danke."] == [4.0]


def test_objects_may_stand_on_several_lines_and_be_cut_anywhere() -> None:
    vosk = '{\n  "partial" : "ja"\n}\n{\n  "text" : "ja gut"\n}\n{"partial": ""}'
    for size in (1, 7, 1000):
        records = Records()
        found = [record for n in range(0, len(vosk), size) for record in records.feed(vosk[n : n + size])]
        assert [*found, *records.finish()] == [{"partial": "ja"}, {"text": "ja gut"}, {"partial": ""}]


@pytest.mark.parametrize(
    ("record", "name"),
    [
        ({"partial": ""}, "vosk"),
        ({"text": "x", "at": 3}, "vosk"),
        ({"alternatives": []}, "vosk"),
        ({"type": "config"}, "whisperlivekit"),
        (state(), "whisperlivekit"),
        ({"results": []}, "browser"),
        ("[Start speaking]\n", "whisper.cpp"),
    ],
)
def test_the_first_record_shows_the_recogniser(record: Record, name: str) -> None:
    assert detect(record) == name
    assert name in RECOGNISERS


def test_mistakes_are_told_in_a_sentence() -> None:
    with pytest.raises(DataError, match="cannot tell which recogniser .* with 'foo'; name it with --format"):
        Listener().feed({"foo": 1}, 0)
    with pytest.raises(
        DataError, match="expected an object with one of 'partial', 'text', 'alternatives', found 'lines'"
    ):
        Listener("vosk").feed({"lines": []}, 0)
    for record in ({"partial": 3}, {"text": "", "result": "x"}, "text\n"):
        with pytest.raises(DataError):
            Listener("vosk").feed(record, 0)
    with pytest.raises(UsageError, match="no format named 'vosc'.*Did you mean 'vosk'"):
        Listener("vosc")
    with pytest.raises(UsageError, match="agree=0"):
        Listener(agree=0)
    with pytest.raises(DataError, match="longer than"):
        list(Records().feed("x" * (1 << 21)))

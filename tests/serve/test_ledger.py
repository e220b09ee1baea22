"""The ledger finds the sentences that the translator finds, and places from which they would be found again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bethink.policy import Policy, WaitK, parse
from bethink.serve.ledger import ENOUGH, Ledger, Portion
from bethink.serve.protocol import cut, units
from bethink.text import Boundary, Segmenter, SentencePieces, Word

WORDS = [
    "te",
    "riki",
    "nakoru",
    ".",
    "!",
    ",",
    "😀",
    "<i>te</i>",
    "<font",
    'color="red">ne',
    "<b",
    "a&nbsp;b",
    "&amp;lt;",
    "z.B.",
    "\u200b",
]
LONG = ["x" * 300, "ab" * 700, "\u200b" * 1500, " " * 1500, "\u200b " * 800]
parts = st.sampled_from([*WORDS, *LONG, " ", " ", " ", " ", "\n", "  "])
texts = st.lists(parts, max_size=60).map("".join)


def events(pieces: SentencePieces, text: str) -> list[Word | Boundary]:
    segmenter = Segmenter(pieces)
    return segmenter.feed(text) + segmenter.finish()


def drain(ledger: Ledger) -> list[Portion]:
    portions = []
    while (portion := ledger.take()) is not None:
        portions.append(portion)
    return portions


def of(pieces: SentencePieces, chunks: list[str]) -> tuple[Ledger, list[Portion]]:
    ledger = Ledger(pieces, WaitK())
    portions = []
    for at, chunk in enumerate(chunks):
        ledger.hear(chunk, at)
        portions += drain(ledger)
    ledger.finish(len(chunks))
    return ledger, portions + drain(ledger)


@settings(max_examples=150)
@given(texts, st.integers(1, 40))
def test_nothing_is_lost_and_every_sentence_found(pieces: SentencePieces, text: str, size: int) -> None:
    ledger, portions = of(pieces, [text[i : i + size] for i in range(0, len(text), size)])
    assert "".join(portion.text for portion in portions) == text
    assert [portion.final for portion in portions] == [False] * (len(portions) - 1) + [True]
    lengths, words = [], 0
    for event in events(pieces, text):
        words += isinstance(event, Word)
        if isinstance(event, Boundary):
            lengths.append(words)
            words = 0
    assert [len(ledger.entries[n].words) for n in sorted(ledger.entries)] == lengths
    assert ledger.begun == len(lengths)


@settings(max_examples=150)
@given(texts, st.integers(1, 40))
def test_a_fresh_start_at_a_restart_finds_the_rest(pieces: SentencePieces, text: str, size: int) -> None:
    ledger, _ = of(pieces, [text[i : i + size] for i in range(0, len(text), size)])
    found = events(pieces, text)
    ends = [n for n, event in enumerate(found) if isinstance(event, Boundary)]
    for number, entry in ledger.entries.items():
        if entry.restart is not None:
            assert events(pieces, cut(text, entry.restart)) == found[ends[number] + 1 :]


def test_plain_sentences_can_all_be_begun_anew(pieces: SentencePieces) -> None:
    ledger, _ = of(pieces, ["te riki . ne ", "ruru ! wa\nhomuran ", "te " * 300])
    assert all(entry.restart is not None for entry in ledger.entries.values())
    assert len(ledger.entries) >= 5  # the last one is too long and is cut, before a word


def test_a_portion_is_at_most_one_sentence(pieces: SentencePieces) -> None:
    _, portions = of(pieces, ["te riki . ne ruru . wa homuran . "])
    assert [portion.text for portion in portions] == ["te riki . ", "ne ruru . ", "wa homuran . ", ""]
    assert [(portion.begins, portion.finished) for portion in portions[:-1]] == [(True, 0), (True, 1), (True, 2)]


def test_a_policy_holds_for_sentences_whose_first_word_is_completed_after_it(pieces: SentencePieces) -> None:
    ledger = Ledger(pieces, parse("wait-k:1"))
    found: list[tuple[str, Policy]] = []
    for item in ("te riki", 2, " . n", 3, "e", 4, " ruru ", 5, ". wa", 6):
        if isinstance(item, int):
            ledger.change(parse(f"wait-k:{item}"))
        else:
            ledger.hear(item, 0.0)
    ledger.finish(0.0)
    found = [(portion.text, portion.policy) for portion in drain(ledger) if portion.begins]
    assert [(text.split()[0], str(policy)[:10]) for text, policy in found] == [
        ("te", "wait-k:k=1"),
        ("ne", "wait-k:k=4"),
        ("wa", "wait-k:k=6"),
    ]


def test_a_sentence_cut_before_a_word_waits_for_its_policy(pieces: SentencePieces) -> None:
    """The word that did not fit ends one sentence and begins the next, which may have another policy."""
    ledger = Ledger(pieces, parse("wait-k:1"))
    short = "haus " * (118 // len(pieces.encode("haus")))
    long = "xyzxyzxyzxyz "
    ledger.hear(short, 0.0)
    ledger.change(parse("wait-k:2"))
    ledger.hear(long, 0.0)
    first, second = drain(ledger)
    assert (first.text, str(first.policy)) == (short, "wait-k:k=1,rate=1.0")
    assert (second.text, str(second.policy)) == (long, "wait-k:k=2,rate=1.0")
    assert second.begins
    assert second.begun == 1
    assert ledger.entries[0].restart == len(short)


def test_little_is_kept(pieces: SentencePieces) -> None:
    ledger = Ledger(pieces, WaitK())
    for n in range(1000):
        ledger.hear("te riki nakoru . ", float(n))
        assert ledger.take() is not None
        assert ledger.take() is None
        entry = ledger.settle(n)
        assert entry.restart == units("te riki nakoru . ") * (n + 1)
    assert not ledger.entries


@pytest.mark.parametrize("open_sentence", ["", "te riki "])
@pytest.mark.parametrize("nothing", [" ", "\u200b ", "\u200b", "<b> ", " \u200b"])
def test_text_that_completes_nothing_is_handed_over_too(
    pieces: SentencePieces, open_sentence: str, nothing: str
) -> None:
    ledger, heard, taken = Ledger(pieces, WaitK()), 0, 0
    ledger.hear(open_sentence, 0.0)
    drain(ledger)
    for n in range(10):
        heard += len(nothing * ENOUGH)
        ledger.hear(nothing * ENOUGH, float(n))
        lengths = [len(portion.text) for portion in drain(ledger)]
        assert max(lengths) <= 2 * ENOUGH
        taken += sum(lengths)
        assert heard - taken < ENOUGH
    ledger.hear("nakoru . ", 20.0)
    assert drain(ledger)[-1].text.endswith("nakoru . ")
    assert ledger.begun == 1


def test_of_many_changes_at_one_place_the_last_is_kept(pieces: SentencePieces) -> None:
    ledger = Ledger(pieces, parse("wait-k:1"))
    for k in range(1, 1000):
        ledger.change(parse(f"wait-k:{k}"))
    assert len(ledger._waiting) == 1
    ledger.hear("te ", 0.0)
    (portion,) = drain(ledger)
    assert portion.policy == parse("wait-k:999")

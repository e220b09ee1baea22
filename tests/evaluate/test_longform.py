"""Whole talks: fed as live text is, cut into the reference's sentences, and scored as OmniSTEval scores them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bethink import toy
from bethink.errors import DataError, UsageError
from bethink.evaluate import load_results, longform
from bethink.evaluate.longform import Segment, Talk
from bethink.evaluate.resegment import resegment
from bethink.policy import Offline, WaitK, parse
from bethink.text import Words
from bethink.trace import words_begun
from bethink.translator import Translator
from tests.evaluate.test_simuleval import MODEL, interpreter, run
from tests.fake import FakeBackend

TALKS = [[("w1 w2.", "w1 w2 ."), ("w3 w4 w5 w6", "w4 w3 w6")], [("w7", "w7 w8"), ("w8 w1!", "w8")]]


@pytest.fixture(scope="module")
def real() -> Translator:
    """The real session and engine over a backend whose words are a hash of what it saw."""
    words = Words([f"w{n}" for n in range(9)])
    return Translator.of(FakeBackend(), words, words, name="hash", policy=Offline())


def cut(words: str, *references: str) -> list[str]:
    said = words.split()
    return [" ".join(said[place] for place in places) for places in resegment(said, references)]


def test_words_go_to_the_sentence_they_match() -> None:
    assert cut("the house is old we left it", "The house is very old.", "Then we left.") == [
        "the house is old",
        "we left it",
    ]
    assert cut("one two", "one", "", "two") == ["one", "", "two"]
    assert cut("", "one", "two") == ["", ""]


def test_a_word_without_partner_goes_to_the_more_similar_neighbour() -> None:
    assert cut("alpha beat beta", "alpha", "beta") == ["alpha", "beat beta"]
    assert cut("alpha alph beta", "alpha", "beta") == ["alpha alph", "beta"]


def test_punctuation_matches_punctuation_only() -> None:
    assert cut("a . b", "a .", "b") == ["a .", "b"]
    assert cut("- a", "a", "b") == ["a", ""]  # as in OmniSTEval, nothing stands before the first word


@given(
    st.lists(st.sampled_from(["a", "ab", "b.", ".", "abc"]), max_size=12),
    st.lists(st.lists(st.sampled_from(["a", "ab", "b", "."]), max_size=4), min_size=1, max_size=4),
)
def test_sentences_take_words_in_order(words: list[str], lines: list[list[str]]) -> None:
    places = [place for here in resegment(words, [" ".join(line) for line in lines]) for place in here]
    assert places == sorted(set(places))


def test_a_talk_too_long_to_align_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bethink.evaluate.resegment.MOST_CELLS", 20)
    with pytest.raises(DataError, match="the talk has 4 words and its reference 4, too many to align; cut it"):
        resegment("a b c d".split(), ["a b c d"])


def test_files_and_empty_lines_separate_talks(tmp_path: Path) -> None:
    for name, text in (("a", "1 2\n\n\n3\n4\n"), ("b", "5\n")):
        (tmp_path / f"{name}.de").write_text(text)
        (tmp_path / f"{name}.en").write_text(text.replace("\n", " x\n").replace("\n x\n", "\n\n").replace("\n x", "\n"))
    sources, references = [tmp_path / "a.de", tmp_path / "b.de"], [tmp_path / "a.en", tmp_path / "b.en"]
    assert longform.load_talks(sources, references) == [
        [("1 2", "1 2 x")],
        [("3", "3 x"), ("4", "4 x")],
        [("5", "5 x")],
    ]
    with pytest.raises(UsageError, match="2 source files but 1 reference files"):
        longform.load_talks(sources, references[:1])
    with pytest.raises(DataError, match="has 5 lines but .* has 1"):
        longform.load_talks(sources[:1], references[1:])
    (tmp_path / "b.en").write_text("x\n\n")
    (tmp_path / "b.de").write_text("5\n6\n")
    with pytest.raises(DataError, match="line 2 is empty in only one of"):
        longform.load_talks(sources[1:], references[1:])


def test_sources_as_a_recogniser_writes_them() -> None:
    talks = [[("Ja, Herr Müller!", "Yes."), ("– …", "–")], [("…", "…")]]
    assert longform.as_heard(talks, lower=True, unpunctuated=True) == [[("ja herr müller", "Yes.")]]
    assert longform.as_heard(talks, lower=True, unpunctuated=False)[0][0] == ("ja, herr müller!", "Yes.")


def test_each_talk_is_one_text_at_the_speakers_pace(real: Translator, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    [result] = longform.evaluate(
        real, TALKS, [WaitK(1)], tmp_path, wpm=600, progress=lambda _, done, words: calls.append((done, words))
    )
    first, second = (json.loads(line) for line in (tmp_path / result.log).read_text().splitlines())
    assert calls[:2] + calls[-1:] == [(1, 6), (2, 6), (3, 3)]
    assert (first["source"], first["source_length"], first["source_words"]) == ("talk-1", 600, 6)
    assert len(first["prediction"].split()) == len(first["delays"]) == len(first["elapsed"])
    assert first["prediction"] == real.translate("w1 w2. w3 w4 w5 w6", WaitK(1))
    assert second["prediction"] == real.translate("w7 w8 w1!", WaitK(1))
    assert set(first["delays"]) <= {100.0 * n for n in range(1, 7)}
    assert all(shown >= delay for delay, shown in zip(first["delays"], first["elapsed"], strict=True))
    segments = json.loads((tmp_path / "segmentation.json").read_text())
    assert segments[1] == {"wav": "talk-1", "offset": 0.2, "duration": 0.4}
    assert segments[3] == {"wav": "talk-2", "offset": 0.1, "duration": 0.2}
    assert (tmp_path / "sources.txt").read_text() == "w1 w2.\nw3 w4 w5 w6\nw7\nw8 w1!\n"
    assert result.wpm == 600
    assert result.scores.sentences == 4


def test_scoring_the_log_gives_the_same_numbers_without_the_model(real: Translator, tmp_path: Path) -> None:
    results = longform.evaluate(real, TALKS, [WaitK(1), Offline()], tmp_path)
    assert load_results(tmp_path) == results
    for result in results:
        assert longform.is_longform(tmp_path / result.log)
        assert longform.rescore(tmp_path / result.log) == result.scores
    with pytest.raises(UsageError, match="another model or test set"):
        longform.evaluate(real, TALKS, [WaitK(2)], tmp_path, wpm=100)
    (tmp_path / "references.txt").write_text("w1\n")
    with pytest.raises(DataError, match="does not belong to"):
        longform.rescore(tmp_path / results[0].log)
    (tmp_path / results[0].log).write_text("{}\n")
    with pytest.raises(DataError, match=r"instances\.log was not written by 'bethink evaluate --longform' \(it lacks"):
        longform.rescore(tmp_path / results[0].log)


def test_nothing_to_translate(real: Translator, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no talks"):
        longform.evaluate(real, [], [WaitK(1)], tmp_path)
    with pytest.raises(UsageError, match="must be above 0"):
        longform.evaluate(real, TALKS, [WaitK(1)], tmp_path, wpm=0)


def talk(delays: list[float], words: str = "") -> Talk:
    said = words or " ".join(f"x{n}" for n in range(len(delays)))
    return Talk(0, "talk-1", said, tuple(delays), tuple(delay + 5 for delay in delays), 1000, 10)


def test_drift_is_the_lag_of_the_last_sentences_beside_that_of_the_first() -> None:
    """Ten sentences of one word each, 100 ms apart; word n is shown n · 10 ms late, the last one when the talk is over."""
    segments = [Segment("talk-1", n / 10, 0.1) for n in range(10)]
    said = talk([100 * (n + 1) + 10 * n for n in range(10)])
    scores = longform.score([said], segments, said.prediction.split())
    assert scores.longform["lag, first tenth"] == pytest.approx(100)
    assert "lag, last tenth" not in scores.longform  # after the end nothing counts
    assert scores.latency["longform"]["LongYAAL"] == pytest.approx(100 + 40)
    assert scores.latency["longform"]["LongYAAL-CA"] == pytest.approx(100 + 45)
    assert scores.quality["standard"]["chrF"].score == pytest.approx(100)


def test_a_stall_counts_the_words_in_which_nothing_was_shown() -> None:
    segments = [Segment("talk-1", 0.0, 1.0)]
    assert longform.score([talk([100, 200, 600])], segments, ["x0"]).longform["stall"] == 4
    assert longform.score([talk([100, 200, 300])], segments, ["x0"]).longform["stall"] == 7  # until the end


def test_a_loop_repeats_what_was_just_shown() -> None:
    words = [f"x{n}" for n in range(100)]
    assert longform.looped(words) == 0
    assert longform.looped("a b c d a b c d".split()) == pytest.approx(100 / 8)
    assert longform.looped(["a"] * 10) == pytest.approx(60)
    assert longform.looped([*words[:4], *words[10:90], *words[:4]]) == 0  # too long ago
    assert longform.looped("Riviiiiière Tsa-tsa Mississippi 10000 ....".split()) == pytest.approx(20)
    assert longform.looped([]) == 0


def test_a_piece_of_text_begins_words_or_continues_one() -> None:
    assert words_begun(" a b", first=False) == 2
    assert words_begun(", a", first=False) == 1
    assert words_begun("a b", first=True) == 2
    assert words_begun("", first=False) == 0


@pytest.mark.parametrize("policy", ["wait-k:k=3", "weigh:k=1,r=3,rate=1.2,rho=0.6", "offline"])
def test_omnisteval_scores_talks_as_we_do(policy: str, tmp_path: Path) -> None:
    """It prints four decimals."""
    python = interpreter("BETHINK_OMNISTEVAL", "omnisteval")
    pairs = [(pair.source, pair.target) for pair in toy.sentences(60, seed=103)]
    talks = [pairs[:45], pairs[45:]]
    [result] = longform.evaluate(Translator(MODEL, threads=1), talks, [parse(policy)], tmp_path, wpm=130)
    command: list[Any] = [Path(python).parent / "omnisteval", "longform", "--word_level"]
    command += ["--speech_segmentation", tmp_path / "segmentation.json", "--hypothesis_file", tmp_path / result.log]
    run(*command, "--ref_sentences_file", tmp_path / "references.txt", "--output_folder", tmp_path / "theirs")
    rows = [line.split("\t") for line in (tmp_path / "theirs" / "scores.tsv").read_text("utf-8").splitlines()[1:]]
    theirs = {name: float(value) for name, value in rows}
    lags, scores = result.scores.latency["longform"], result.scores.quality["standard"]
    ours = {"BLEU": scores["BLEU"].score, "chrF": scores["chrF"].score}
    ours |= {"LongYAAL (CU)": lags["LongYAAL"], "LongYAAL (CA)": lags["LongYAAL-CA"]}
    assert {name: theirs[name] for name in ours} == pytest.approx(ours, abs=6e-5)

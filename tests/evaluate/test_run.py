"""An evaluation writes logs and results that say everything the scores need; scoring a log again gives the same numbers."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bethink.errors import DataError, UsageError
from bethink.evaluate import (
    Instance,
    evaluate,
    instance,
    latency,
    load_pairs,
    load_results,
    quality,
    read_log,
    rescore,
    score,
    table,
)
from bethink.files import read_lines
from bethink.policy import Offline, WaitK, parse
from bethink.text import Words
from bethink.translator import Translator
from tests.evaluate.made import FakeTranslator, golden_lines, translation
from tests.fake import FakeBackend

SOURCES = [*golden_lines("source.txt")[:8], "  ", "Es regnet ."]
REFERENCES = [*golden_lines("reference.txt")[:8], "", "It is raining ."]


@pytest.fixture
def fake() -> Any:
    return FakeTranslator(SOURCES, REFERENCES)


@pytest.fixture(scope="module")
def real() -> Translator:
    """The real engine over a backend whose words are a hash of what it saw."""
    words = Words([f"w{n}" for n in range(9)])
    return Translator.of(FakeBackend(), words, words, name="hash", policy=Offline())


def test_instance_holds_what_the_translation_did() -> None:
    made = translation("eins zweiundzwanzig drei", "one twentytwo three", k=2, degrees=True)
    one = instance(7, "eins zweiundzwanzig drei", "one two three", made)
    assert one.prediction == "one twentytwo three"
    assert one.path == (2, 3, 4, 5, 5)
    assert one.source_tokens == 5
    assert one.delays == (2, 3, 3)  # each word is shown with the first token of the next
    assert one.source_length == 3
    # In tokens, EOS counted: the source is read at the fourth of five; (2-0 + 3-1 + 4-2 + 5-3) / 4.
    assert score([one]).latency["paper"]["AL"] == pytest.approx(2.0)
    assert one.forced == 1  # of three words weighed while the source was open, the third had no evidence
    assert one.deferred == 3
    assert one.erased == 0


def test_every_policy_is_scored_over_every_line(fake: Any, tmp_path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    policies = [WaitK(1), WaitK(3), Offline(), WaitK(1)]
    results = evaluate(
        fake, SOURCES, REFERENCES, policies, tmp_path, progress=lambda p, done, n: calls.append((str(p), done, n))
    )
    assert [result.policy for result in results] == ["wait-k:k=1,rate=1.0", "wait-k:k=3,rate=1.0", "offline"]
    assert calls[0] == ("offline", 1, 10)  # the others are compared with it
    assert calls[-1] == ("wait-k:k=3,rate=1.0", 10, 10)
    assert len(calls) == 30
    lags = [result.scores.latency["paper"]["AL"] for result in results]
    assert lags == sorted(lags)
    assert all(result.scores.sentences == 10 and result.scores.erasure == 0 for result in results)
    assert load_results(tmp_path) == load_results(tmp_path / "results.json") == results


def test_offline_lags_by_the_mean_source_length(fake: Any, tmp_path: Path) -> None:
    [result] = evaluate(fake, SOURCES, REFERENCES, [Offline()], tmp_path)
    spoken = [one for one in read_log(tmp_path / result.log) if one.delays]
    mean = sum(one.source_length for one in spoken) / len(spoken)
    assert result.scores.latency["simuleval"]["AL"] == pytest.approx(mean)


def test_scoring_the_log_gives_the_same_numbers_without_the_model(fake: Any, tmp_path: Path) -> None:
    for result in evaluate(fake, SOURCES, REFERENCES, [WaitK(2), Offline()], tmp_path):
        assert rescore(tmp_path / result.log, spoken=result.spoken) == result.scores


def test_results_name_their_signatures_and_versions(fake: Any, tmp_path: Path) -> None:
    evaluate(fake, SOURCES, REFERENCES, [WaitK(2)], tmp_path)
    record = json.loads((tmp_path / "results.json").read_text("utf-8"))["results"][0]
    assert record["model"] == "fake"
    assert "tok:13a" in record["quality"]["standard"]["BLEU"]["signature"]
    assert {"bethink", "python", "numpy", "sacrebleu"} <= set(record["versions"])
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]


def test_an_empty_line_gets_an_empty_translation(real: Translator, tmp_path: Path) -> None:
    for clock in (False, True):
        [result] = evaluate(real, ["", "w1 w2", " "], ["x", "w1", ""], [WaitK(1)], tmp_path, clock=clock)
        empty, full, blank = read_log(tmp_path / result.log)
        assert empty.prediction == blank.prediction == ""
        assert full.prediction
        assert rescore(tmp_path / result.log) == result.scores


def test_nothing_but_empty_predictions_has_quality_and_no_latency() -> None:
    scores = score([Instance(0, "a b", "x y", "", 2, ())])
    assert scores.latency == {}
    assert scores.quality["standard"]["BLEU"].score == 0
    Console(quiet=True).print(table([]))


@pytest.mark.parametrize("spec", ["offline", "wait-k:2", "adaptive:0.9,0.2,5", "pe:k=2,rho=0.9,r=2"])
def test_the_clock_changes_when_words_come_not_which(real: Translator, tmp_path: Path, spec: str) -> None:
    sources = [" ".join(f"w{(n * m) % 9}" for m in range(1, 4 + n)) + "." * (n % 2) for n in range(6)]
    references = ["w1 w2 w3"] * 6
    [plain] = evaluate(real, sources, references, [parse(spec)], tmp_path / "plain")
    [timed] = evaluate(real, sources, references, [parse(spec)], tmp_path / "timed", clock=True, wpm=600)
    assert timed.scores.quality == plain.scores.quality
    assert {name: timed.scores.latency[name] for name in plain.scores.latency} == plain.scores.latency
    assert timed.scores.latency["clock"]["DAL"] >= plain.scores.latency["simuleval"]["DAL"] * 100
    assert timed.wpm == 600
    assert plain.wpm is None


def test_words_are_shown_when_the_speaker_and_the_work_allow(
    real: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) * 0.01)  # every piece of work takes 10 ms
    [result] = evaluate(real, ["w1 w2 w3 w4"], ["w1 w2"], [WaitK(1)], tmp_path, clock=True, wpm=120)
    [one] = read_log(tmp_path / result.log)
    assert one.source_ms == 2000
    assert len(one.elapsed) == len(one.delays)
    for delay, moment in zip(one.delays, one.elapsed, strict=True):
        # the end of the sentence comes with the last word and waits until the work on that word is done
        assert moment == pytest.approx(delay * 500 + 10) or (delay == 4 and moment == pytest.approx(2020))
    record = json.loads((tmp_path / result.log).read_text("utf-8"))
    assert record["elapsed"] == pytest.approx([moment / 500 for moment in one.elapsed])


numbers = st.lists(st.floats(0, 1e6), max_size=4).map(tuple)


@given(st.text(), st.text(), numbers, numbers, st.none() | st.floats(1, 1e6))
def test_an_instance_survives_its_line_in_the_log(
    source: str, reference: str, delays: tuple[float, ...], elapsed: tuple[float, ...], source_ms: float | None
) -> None:
    one = Instance(3, source, reference, "a b", 2, delays, elapsed, source_ms, (1, 2), 5, 1, 2, 0)
    assert Instance.from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_lines_are_cut_at_newlines_only(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes("\ufeffa\u2028b\r\n\nc\x0bd\n".encode())
    assert read_lines(file) == ["a\u2028b", "", "c\x0bd"]


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    good, short, empty, latin = (tmp_path / name for name in ("good", "short", "empty", "latin"))
    good.write_text("a\nb\n")
    short.write_text("a\n")
    empty.write_text("\n")
    latin.write_bytes(b"gr\xfcn\n")
    with pytest.raises(DataError, match=r"good has 2 lines but .*short has 1"):
        load_pairs(good, short)
    with pytest.raises(DataError, match="empty is empty"):
        load_pairs(empty, good)
    with pytest.raises(DataError, match=r"latin, line 1 is not UTF-8 .*0xfc"):
        load_pairs(good, latin)
    with pytest.raises(DataError, match=r"cannot read .*missing: no such file"):
        load_pairs(tmp_path / "missing", good)
    with pytest.raises(DataError, match="cannot read"):
        load_pairs(tmp_path, good)


@pytest.mark.parametrize(
    "line", ["nonsense", "[1]", '{"index": 0}', '{"index": "x"}', "null", "[" * 100_000], ids=lambda line: line[:14]
)
def test_a_log_that_is_none(tmp_path: Path, line: str) -> None:
    log = tmp_path / "instances.log"
    log.write_text(line + "\n")
    with pytest.raises(DataError, match="line 1 is not a scored sentence"):
        rescore(log)


@pytest.mark.parametrize(
    ("line", "flaw"),
    [
        ("Guten Tag !", "it is not JSON"),
        ('{"index": 0}', "it lacks 'source'"),
        ("[1]", "the sentence is [1], expected an object"),
    ],
)
def test_what_is_no_log_or_result_is_told_in_plain_words(tmp_path: Path, line: str, flaw: str) -> None:
    file = tmp_path / "s.de"
    file.write_text(line + "\n")
    with pytest.raises(DataError, match=f"s.de is not a log of 'bethink evaluate': .*{re.escape(flaw)}") as caught:
        rescore(file)
    assert "Error" not in str(caught.value)
    with pytest.raises(DataError, match=r"s.de is not a results file of 'bethink evaluate' \(it ") as caught:
        load_results(file)
    assert "Error" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"delays": "abc"},
        {"delays": [1, "x"]},
        {"delays": [1, float("nan")]},
        {"path": "ab"},
        {"path": [1.5]},
        {"path": [1, 2], "source_tokens": 0},
        {"erased": "x"},
        {"source_ms": "x"},
        {"elapsed_ms": 5},
        {"source_length": float("inf")},
    ],
    ids=str,
)
def test_a_log_with_a_wrong_value(tmp_path: Path, wrong: dict[str, Any]) -> None:
    log = tmp_path / "instances.log"
    good = Instance(0, "a b", "x y", "x y", 2, (1, 2), (), None, (1, 2, 3), 3).to_dict()
    log.write_text(json.dumps(good) + "\n")
    rescore(log)
    log.write_text(json.dumps({**good, **wrong}) + "\n")
    with pytest.raises(DataError, match=f"line 1 is not a scored sentence .*{list(wrong)[-1]} is ") as caught:
        rescore(log)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"quality": {"paper": 3}},
        {"quality": {"paper": {"BLEU": 3}}},
        {"quality": {"paper": {"BLEU": {"score": "x", "signature": "s"}}}},
        {"latency": 5},
        {"latency": {"paper": {"AL": "x"}}},
        {"latency": {"paper": {"AL": float("nan")}}},
        {"policy": 5},
        {"log": None},
        {"wpm": "fast"},
        {"versions": 5},
        {"sentences": "many"},
        {"erasure": []},
    ],
    ids=str,
)
def test_results_with_a_wrong_value(fake: Any, tmp_path: Path, wrong: dict[str, Any]) -> None:
    evaluate(fake, SOURCES, REFERENCES, [WaitK(2)], tmp_path)
    file = tmp_path / "results.json"
    record = json.loads(file.read_text("utf-8"))
    record["results"][0].update(wrong)
    file.write_text(json.dumps(record))
    with pytest.raises(DataError, match=r"results\.json is not a results file"):
        load_results(tmp_path)


def test_square_brackets_are_no_markup(fake: Any, tmp_path: Path) -> None:
    [result] = evaluate(fake, SOURCES, REFERENCES, [WaitK(2)], tmp_path)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table([dataclasses.replace(result, model="m[/b]", policy="[/x]p")]))
    text = console.export_text()
    assert "m[/b]" in text
    assert "[/x]p" in text


@pytest.mark.parametrize(
    "text", ["{}", "[]", '{"format": 2, "results": []}', '{"format": 1, "results": [{}]}', "nonsense"]
)
def test_results_that_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(DataError, match=r"results\.json"):
        load_results(tmp_path)


def test_input_that_cannot_be_evaluated(fake: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="2 source sentences but 1 references"):
        evaluate(fake, ["a", "b"], ["a"], [Offline()], tmp_path)
    with pytest.raises(DataError, match="no sentences"):
        evaluate(fake, [], [], [Offline()], tmp_path)
    with pytest.raises(UsageError, match="must be above 0"):
        evaluate(fake, ["a"], ["a"], [Offline()], tmp_path, clock=True, wpm=0)
    with pytest.raises(DataError, match="no sentences to score"):
        score([])


def test_the_table_shows_scores_and_how_they_were_counted(fake: Any, tmp_path: Path) -> None:
    results = evaluate(fake, SOURCES, REFERENCES, [WaitK(2), Offline()], tmp_path)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table(results))
    text = console.export_text()
    assert "wait-k:k=2,rate=1.0" in text
    assert f"{results[0].scores.latency['paper']['AL']:.2f}" in text
    assert "tok:13a" in text
    assert "ms" not in text.split("sentences")[0]  # no clock ran


def test_latency_can_be_had_without_sacrebleu(fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "available", lambda: False)
    results = evaluate(fake, SOURCES, REFERENCES, [WaitK(2)], tmp_path)
    assert results[0].scores.quality == {}
    assert results[0].scores.latency["simuleval"]["AL"] > 0
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table(results))
    assert "BLEU needs the 'train' extra" in console.export_text()


def test_a_second_run_adds_to_the_first(real: Translator, tmp_path: Path) -> None:
    sources, references = ["w1 w2 w3", "w4"], ["w1 w2", "w3"]
    first = evaluate(real, sources, references, [WaitK(1), WaitK(3)], tmp_path)
    again = evaluate(real, sources, references, [WaitK(3), Offline()], tmp_path)
    assert load_results(tmp_path) == [first[0], *again]
    with pytest.raises(UsageError, match="another model or test set"):
        evaluate(real, sources, ["w1", "w3"], [WaitK(1)], tmp_path)


def test_another_model_of_the_same_name_is_refused(
    real: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["w1 w2 w3", "w4"], ["w1 w2", "w3"]
    [old] = evaluate(real, *lines, [WaitK(1)], tmp_path)  # of which nobody knows
    monkeypatch.setattr(real, "fingerprint", "a")
    [known] = evaluate(real, *lines, [WaitK(2)], tmp_path)
    assert load_results(tmp_path) == [old, known]
    monkeypatch.setattr(real, "fingerprint", "b")
    with pytest.raises(UsageError, match="holds results of another model named hash; give another folder with --out"):
        evaluate(real, *lines, [WaitK(3)], tmp_path)
    assert load_results(tmp_path) == [old, known]
    record = json.loads((tmp_path / "results.json").read_text("utf-8"))
    del record["results"][0]["fingerprint"]
    (tmp_path / "results.json").write_text(json.dumps(record))
    assert load_results(tmp_path) == [old, known]


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_where_nothing_can_be_written_nothing_is_translated(
    fake: Any, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.delattr(FakeTranslator, "as_completed")
    with pytest.raises(UsageError, match=rf"cannot write to .*{place}: .*; give another folder with --out"):
        evaluate(fake, SOURCES, REFERENCES, [Offline()], tmp_path / place)


def test_laal_counts_the_longer_of_hypothesis_and_reference(real: Translator, tmp_path: Path) -> None:
    """In the paper's profile in model tokens: a reference of nine words has ten."""
    result = evaluate(real, ["w1 w2 w3"], ["w1 w2 w3 w4 w5 w6 w7 w8 w1"], [WaitK(1)], tmp_path)[0]
    one = read_log(tmp_path / result.log)[0]
    assert one.reference_tokens == 10
    expected = latency.length_adaptive(one.path, one.source_tokens, 10)
    assert result.scores.latency["paper"]["LAAL"] == pytest.approx(expected)
    assert rescore(tmp_path / result.log) == result.scores

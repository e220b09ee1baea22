"""explain, evaluate, plot and bench, on a real if untrained model."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest

from bethink import toy as toy_language
from bethink.cli import bench, main
from bethink.translator import Translator

EMPTY = hashlib.sha256().hexdigest()


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(list(argv)) == 0
    return capsys.readouterr().out


def test_explain_has_a_row_for_every_word(
    model: Path, sentences: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(capsys, "explain", sentences[0], "--model", str(model), "--policy", "wait-k:k=2")
    words = Translator(model).translate(sentences[0], "wait-k:k=2").split()
    rows = [line.split() for line in out.splitlines() if line.strip()[:1].isdigit()]
    heard_by = [int(row[0]) for row in rows]
    assert len(rows) == len(words)
    assert heard_by == sorted(heard_by)
    assert heard_by[-1] == len(sentences[0].split())
    heard = [word for row in rows for word in row[1:] if word in sentences[0].split()]
    assert heard == sentences[0].split()
    assert "on schedule: 2 read, 2 required" in out
    assert "the source sentence is complete" in out


def test_explain_names_what_spoke_for_a_word(
    model: Path, sentences: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(capsys, "explain", sentences[0], "--model", str(model), "--policy", "pe:k=2,rho=0.0,r=1")
    assert "translates " in out
    out = run(capsys, "explain", sentences[0], "--model", str(model), "--policy", "pe:k=2,rho=1.0,r=1")
    assert "translates " not in out
    assert "put off 1×, the most allowed" in out
    assert "1×" in out


@pytest.mark.parametrize("policy", ["pe:k=2,rho=0.0,r=1", "wait-k:k=2"])
def test_explain_draws(
    policy: str, model: Path, sentences: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "degree.svg"
    out = run(capsys, "explain", sentences[0], "--model", str(model), "--policy", policy, "--out", str(picture))
    assert picture.read_text(encoding="utf-8").lstrip().startswith("<?xml")
    assert "degree.svg" in out.replace("\n", "")


def test_evaluate_rescore_and_plot(
    model: Path, text: Path, references: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    files = ["--source", str(text), "--reference", str(references), "--model", str(model)]
    out = run(
        capsys, "evaluate", *files, "--policy", "wait-k:1", "wait-k:4", "--policy", "offline", "--out", str(results)
    )
    assert "wait-k:k=4" in out
    assert "nrefs:1" in out
    record = json.loads((results / "results.json").read_text())
    assert [result["policy"] for result in record["results"]] == [
        "wait-k:k=1,rate=1.0",
        "wait-k:k=4,rate=1.0",
        "offline",
    ]
    logs = [str(results / result["log"]) for result in record["results"]]
    run(capsys, "evaluate", "--rescore", *logs, "--out", str(tmp_path / "again"))
    again = json.loads((tmp_path / "again" / "results.json").read_text())
    for scored in ("model", "policy", "latency", "quality"):
        assert [result[scored] for result in again["results"]] == [result[scored] for result in record["results"]]
    assert run(capsys, "plot", str(results), "--out", str(tmp_path / "curve.svg")).strip() == str(
        tmp_path / "curve.svg"
    )
    assert (tmp_path / "curve.svg").stat().st_size > 1000


def test_a_log_from_elsewhere_is_named_after_its_folder(
    model: Path, text: Path, references: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--source", str(text), "--reference", str(references), "--model", str(model), "--out", str(tmp_path / "r")]
    run(capsys, "evaluate", *files, "--policy", "offline")
    (tmp_path / "r" / "results.json").unlink()
    (tmp_path / "r" / "offline").rename(tmp_path / "r" / "theirs")
    assert "theirs" in run(capsys, "evaluate", "--rescore", str(tmp_path / "r" / "theirs" / "instances.log"))


def test_evaluate_by_the_clock(
    model: Path, text: Path, references: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--source", str(text), "--reference", str(references), "--model", str(model), "--out", str(tmp_path / "r")]
    run(capsys, "evaluate", *files, "--policy", "wait-k:2", "--clock", "--wpm", "200")
    result = json.loads((tmp_path / "r" / "results.json").read_text())["results"][0]
    assert result["wpm"] == 200
    assert result["latency"]["clock"]["AL"] > 0


def test_evaluate_talks(
    model: Path, text: Path, references: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two talks, one per file, as a recogniser may write them."""
    files = ["--source", str(text), str(text), "--reference", str(references), str(references), "--model", str(model)]
    out = run(capsys, "evaluate", "--longform", *files, "--lower", "--unpunctuated", "--out", str(tmp_path / "r"))
    assert "LongYAAL" in out
    assert "6 sentences" in out
    [result] = json.loads((tmp_path / "r" / "results.json").read_text())["results"]
    assert "," not in (tmp_path / "r" / "sources.txt").read_text()
    run(capsys, "evaluate", "--rescore", str(tmp_path / "r" / result["log"]), "--out", str(tmp_path / "again"))
    [again] = json.loads((tmp_path / "again" / "results.json").read_text())["results"]
    for scored in ("policy", "latency", "quality", "longform"):
        assert again[scored] == result[scored]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--lower"], "--lower belongs to --longform; add that"),
        (["--longform", "--clock"], "leave out --clock"),
        (["--source", "a", "b"], "--source has 2 files; give one, or add --longform"),
    ],
)
def test_options_of_talks_and_of_sentences(
    argv: list[str], message: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--source", "a", "--reference", "b", "--model", str(model), "--out", str(tmp_path / "r")]
    assert main(["evaluate", *files, *argv]) == 2
    assert message in capsys.readouterr().err


def test_a_bank_of_equal_models_is_the_model(
    model: Path, text: Path, references: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--source", str(text), "--reference", str(references), "--policy", "adaptive:k_max=3"]
    run(capsys, "evaluate", *files, "--models", *[str(model)] * 3, "--out", str(tmp_path / "per_lag"))
    run(capsys, "evaluate", *files, "--model", str(model), "--out", str(tmp_path / "one"))
    per_lag, one = (
        json.loads((tmp_path / name / "results.json").read_text())["results"][0] for name in ("per_lag", "one")
    )
    assert per_lag["latency"] == one["latency"]
    assert per_lag["quality"] == one["quality"]
    assert per_lag["model"] == "random and 2 more"


def test_evaluate_tells_models_of_one_name_apart(
    model: Path, text: Path, references: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = copied(model, tmp_path, files=json.loads((model / "config.json").read_text())["files"] | {"more": EMPTY})
    (other / "more").touch()
    files = ["--source", str(text), "--reference", str(references), "--policy", "offline", "--out", str(tmp_path / "r")]
    run(capsys, "evaluate", *files, "--model", str(model))
    run(capsys, "evaluate", *files, "--model", str(model))
    assert main(["evaluate", *files, "--model", str(other)]) == 2
    assert "another model named random" in capsys.readouterr().err


def test_evaluate_says_which_file_is_shorter(
    model: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = tmp_path / "short"
    short.write_text("one line\n")
    files = ["--source", str(text), "--reference", str(short), "--model", str(model), "--out", str(tmp_path / "r")]
    assert main(["evaluate", *files]) == 1
    assert "has 3 lines" in capsys.readouterr().err


@pytest.mark.parametrize("streams", ["1", "4"])
def test_bench_counts(
    streams: str, model: Path, text: Path, sentences: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["bench", "--model", str(model), "--source", str(text), "--streams", streams, "--repeat", "1", "--json"]
    report = json.loads(run(capsys, *argv, "--policy", "wait-k:3", "pe:k=3,rho=0"))
    wait, pe = report["policies"]
    written = sum(len(t.writes) for t in Translator(model).translate_many(sentences, "wait-k:3"))
    assert wait["tokens"] == written * (report["sentences"] // len(sentences))
    assert wait["rows_per_token"] == pytest.approx(1, abs=0.05)
    assert (wait["rounds_per_token"] < 0.8) == (streams == "4")
    assert pe["rows_per_token"] >= 1
    assert report["load_seconds"] > 0
    assert report["peak_megabytes"] > 10
    assert wait["seconds_per_token"] * wait["tokens_per_second"] == pytest.approx(1, rel=1e-3)
    assert wait["ratio_to_wait_k"] == 1
    assert pe["ratio_to_wait_k"] > 0
    assert report["first_word_seconds"] > 0


def test_bench_for_people(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "bench", "--model", str(model), "--repeat", "1")
    for policy in ("offline", "wait-k:k=3", "adaptive:", "pe:k=3", "pe-flip:k=3"):
        assert policy in out
    assert "10 sentences, 1 at a time" in out
    assert "peak memory" in out
    assert "÷ wait-k" in out


def test_bench_has_a_sentence_for_every_stream(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("bench", "--model", str(model), "--repeat", "1", "--json", "--policy", "offline", "--streams", "25")
    report = json.loads(run(capsys, *argv))
    assert report["sentences"] == 30
    assert report["policies"][0]["ratio_to_wait_k"] is None  # wait-k was not asked for


def test_bench_knows_the_toy_language_by_what_the_model_says(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = []
    for name, toy in (("plain", True), ("toy", False)):
        copy = copied(model, tmp_path, name=name, about={"toy": toy})
        argv = ("bench", "--model", str(copy), "--repeat", "1", "--json", "--policy", "offline")
        report = json.loads(run(capsys, *argv))
        counts.append(report["policies"][0]["tokens"])
    spoken = {True: [pair.source for pair in toy_language.sentences(10, bench.TOY_SEED)], False: list(bench.GERMAN)}
    assert counts == [
        sum(len(t.writes) for t in Translator(model).translate_many(spoken[toy], "offline")) for toy in (True, False)
    ]


def test_bench_without_a_word(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nothing").write_text("\u200b\n<b>\n", encoding="utf-8")
    assert main(["bench", "--model", str(model), "--source", str(tmp_path / "nothing")]) == 1
    assert "nothing has no sentence to translate" in capsys.readouterr().err


def test_explain_tells_of_what_is_not_utf8(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "latin").write_bytes(b"te gr\xfcn\n")
    with (tmp_path / "latin").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert main(["explain", "-", "--model", str(model)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "standard input, line 1 is not UTF-8" in err


def test_explain_asks_for_its_extra_before_it_prints(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["explain", "te himu", "--model", str(model), "--out", "degree.svg"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "drawing needs the 'train' extra" in err


@pytest.mark.parametrize("text", ["<b>", "\u200b"])
def test_explain_without_a_word(model: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", text, "--model", str(model)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "there is no word in the text to explain" in err


def test_square_brackets_in_a_name_are_no_markup(
    model: Path, tmp_path: Path, sentences: list[str], text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = copied(model, tmp_path, name="my[/b]model", about={"description": "[red]of mine[/x]", "toy": True})
    told = "my[/b]model ([red]of mine[/x])"
    assert told in run(capsys, "explain", sentences[0], "--model", str(copy))
    assert told in run(capsys, "bench", "--model", str(copy), "--repeat", "1")
    assert told in run(capsys, "translate", "--watch", "--model", str(copy), str(text))


def copied(model: Path, to: Path, **changes: object) -> Path:
    """A model folder with other facts about it."""
    path = to / str(len(list(to.iterdir())))
    shutil.copytree(model, path)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, **changes}))
    return path

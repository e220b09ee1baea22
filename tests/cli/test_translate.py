"""`bethink translate`: text only on stdout, as soon as it is final, in every form."""

from __future__ import annotations

import gc
import json
import os
import selectors
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

import bethink
from bethink.cli import main
from bethink.cli.translate import FIELDS, Decoder, Speaker
from bethink.cli.watch import Watch
from bethink.evaluate.latency import average_lagging
from bethink.policy import parse
from bethink.trace import Step, Translation, shown
from bethink.translator import Translator

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(bethink.__file__).parent.parent), "OMP_NUM_THREADS": "1"}

PE = "pe:k=2,rho=0.05,r=1"


def translate(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["translate", *argv]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize("policy", ["wait-k:k=3", "offline", PE, "adaptive"])
def test_a_line_in_is_a_line_out(
    policy: str, model: Path, text: Path, sentences: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    translator = Translator(model)
    expected = [translator.translate(line, policy) for line in sentences]
    assert translate(capsys, "--model", str(model), "--policy", policy, str(text)).splitlines() == expected


def test_empty_lines_stay_and_the_last_line_is_completed(
    model: Path, sentences: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "text"
    file.write_bytes(b"\xef\xbb\xbf" + f"{sentences[0]}\r\n\n{sentences[1]}".encode())
    first, empty, second, rest = translate(capsys, "--model", str(model), str(file)).split("\n")
    assert first
    assert (empty, rest) == ("", "")
    assert second == Translator(model).translate(sentences[1])


def test_nothing_in_nothing_out(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert translate(capsys, "--model", str(model), "/dev/null") == ""


def test_json_lines_tell_every_step(
    model: Path, text: Path, sentences: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    plain = translate(capsys, "--model", str(model), "--policy", PE, str(text))
    steps = [
        json.loads(line)
        for line in translate(capsys, "--model", str(model), "--policy", PE, "--json", str(text)).splitlines()
    ]
    assert "".join(step.get("text", "") for step in steps if step["action"] == "WRITE") == plain.replace("\n", "")
    heard = [step["text"] for step in steps if step["action"] == "READ" and step["text"]]
    assert heard == " ".join(sentences).split()
    times = [step["at"] for step in steps]
    assert times == sorted(times)
    assert all(type(time) is int for time in times)


def test_json_has_the_fields_that_help_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bundled models together have everything a step can have: one looks ahead, one judges."""
    found: set[str] = set()
    examples = Path(bethink.__file__).parents[2] / "examples"
    (tmp_path / "terms.tsv").write_text("Straßenbahn\ttram\n", encoding="utf-8")
    terms = ("--glossary", str(tmp_path / "terms.tsv"))
    for model, policy, file, more in (
        ("toy", "pe:k=1,rho=0.2,r=8", "toy.txt", ()),
        ("de-en", "weigh:unit=word", "talk.de.txt", terms),
    ):
        line = (examples / file).read_text(encoding="utf-8").partition("\n")[0]
        line = f"(80331) Straßenbahn {line}"  # a word that is carried over, and a term
        (tmp_path / file).write_text(line, encoding="utf-8")
        out = translate(capsys, "--model", model, "--policy", policy, "--json", *more, str(tmp_path / file))
        found |= {field for step in out.splitlines() for field in json.loads(step)}
    # correction: only with --repair, and where a meaning was lost; attention: only of models without capsules; complete: only where the
    # vocabulary marks the beginning of words
    assert found | {"correction", "attention", "complete"} == set(FIELDS)
    assert main(["translate", "--help"]) == 0
    listed = capsys.readouterr().out.split("fields of --json")[1].splitlines()[1:]
    assert [line.split()[0] for line in listed] == list(FIELDS)


@pytest.mark.parametrize("cut", [1, 7])
def test_any_chunking_of_stdin(
    cut: int, model: Path, text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = translate(capsys, "--model", str(model), str(text))
    monkeypatch.setattr("bethink.cli.translate.CHUNK", cut)
    with text.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert translate(capsys, "--model", str(model)) == whole


def test_bytes_that_are_not_text_do_not_stop_it(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "text"
    file.write_bytes(b"te \xff\xfe himu \xc3")
    assert main(["translate", "--model", str(model), str(file)]) == 1  # but they are an error
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize("data", [b"\x7fELF\x02\x01\x01\0\0\0 te himu\n", "te himu\n".encode("utf-16")])
def test_a_file_that_is_not_text_is_refused_at_once(
    data: bytes, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "text"
    file.write_bytes(data)
    assert main(["translate", "--model", str(model), str(file)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert f"{file} is not UTF-8 text: it has zero bytes" in err


@pytest.mark.parametrize("cut", [1, 7, 1 << 16])
def test_what_is_not_utf8_is_told_once(
    cut: int, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bethink.cli.translate.CHUNK", cut)
    file = tmp_path / "text"
    file.write_bytes(b"\xef\xbb\xbfte\nGr\xc3\xbc\xc3\x9fe\nSch\xf6ne Gr\xfc\xdfe\nte\n")
    assert main(["translate", "--model", str(model), str(file)]) == 1
    out, err = capsys.readouterr()
    assert out.count("\n") == 4
    assert err.count("\n") == 1
    assert f"bethink: {file}, line 3 is not UTF-8 (it has a byte 0xf6)" in err
    assert "iconv -f LATIN1 -t UTF-8" in err


def test_a_stream_is_told_of_what_is_not_utf8(capsys: pytest.CaptureFixture[str]) -> None:
    decoder = Decoder("standard input")
    assert decoder.decode(b"Sch\xc3") == "Sch"  # the rest may be on its way
    assert decoder.decode(b"\xb6n") == "ön"
    assert capsys.readouterr().err == ""
    assert decoder.decode("Grüße\n".encode("utf-16")).startswith("\ufffd\ufffdG")
    assert decoder.decode(b"\xc3", final=True) == "\ufffd"
    told = capsys.readouterr().err
    assert told.count("standard input, line 1 is not UTF-8 (it has a byte 0xff)") == told.count("\n") == 1
    assert "iconv -f UTF-16" in told


def test_rate_lets_words_arrive_at_a_speakers_pace(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "text"
    file.write_text("te himu nakoru .\n")
    out = translate(capsys, "--model", str(model), "--json", "--rate", "1200", str(file))
    steps = [json.loads(line) for line in out.splitlines()]
    arrivals = [step["at"] for step in steps if step["action"] == "READ" and step["text"]]
    assert len(arrivals) == 4
    # one every 50 ms, and never before its time
    assert all(at >= 50 * word for word, at in enumerate(arrivals, start=1))


class Running:
    """A translate command whose input stays open."""

    def __init__(self, *argv: str) -> None:
        command = [sys.executable, "-m", "bethink", "translate", *argv]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT)

    def say(self, text: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def hear(self, end: str, seconds: float = 60) -> str:
        """Output up to `end`, or what came until the time was up."""
        assert self.process.stdout
        found, deadline = b"", time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not found.endswith(end.encode()) and selector.select(deadline - time.monotonic()):
                found += os.read(self.process.stdout.fileno(), 1)
        return found.decode()

    def close(self) -> int:
        self.process.communicate()
        return self.process.returncode


def test_nothing_is_held_back_until_the_end(model: Path, sentences: list[str]) -> None:
    session = Translator(model).session("wait-k:k=2")
    running = Running("--model", str(model), "--policy", "wait-k:k=2")
    try:
        for line in sentences[:2]:
            head, tail = line[: len(line) // 2], line[len(line) // 2 :] + "\n"
            running.say(head)
            early = shown(session.feed(head))
            assert early
            assert running.hear(early) == early  # while the sentence is still being said
            running.say(tail)
            rest = shown(session.feed(tail) + session.finish()) + "\n"
            assert running.hear("\n") == rest  # while the input is still open
    finally:
        assert running.close() == 0


@pytest.mark.parametrize("policy", ["wait-k:k=3", PE])
def test_watch_as_a_transcript(
    policy: str, model: Path, text: Path, sentences: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = translate(capsys, "--model", str(model), "--policy", policy, "--watch", str(text)).splitlines()
    read = [line.split()[1] for line in lines if line.startswith("READ")]
    assert [word for word in read if word != "⏎"] == " ".join(sentences).split()
    assert any("WRITE" in line for line in lines)
    summary = {line[:12].strip(): line[12:].strip() for line in lines[-5:]}
    assert summary["model"] == "random (random weights over the toy language)"
    assert summary["policy"].startswith(policy.partition(",")[0])
    assert summary["text"].startswith(f"3 sentences, {len(' '.join(sentences).split())} words heard")
    assert "words" in summary["lag (LAAL)"]
    assert "rounds per written token" in summary["speed"]


def test_a_watch_does_not_grow_with_the_stream(model: Path, sentences: list[str]) -> None:
    """No step of a sentence outlives it; what is kept are sums."""
    speaker = Speaker(Translator(model), parse("wait-k:k=3"))
    watch = Watch(speaker, Console(quiet=True))
    alive = []
    for _ in range(3):
        for step in [*speaker.feed(sentences[0]), *speaker.finish()]:
            watch.step(step)
        gc.collect()
        alive.append(sum(type(each) is Step for each in gc.get_objects()))
    assert alive[0] == alive[1] == alive[2]
    one = Translation.of([*speaker.feed(sentences[0]), *speaker.finish()])
    assert (watch.sums.sentences, watch.sums.heard, watch.sums.tokens) == (3, 3 * len(one.source), 3 * len(one.path))
    assert watch.sums.lag == pytest.approx(3 * average_lagging(one.delays, len(one.source), len(one.delays)))


def test_watch_names_the_evidence(model: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = translate(capsys, "--model", str(model), "--policy", "pe:k=2,rho=0,r=1", "--watch", str(text)).splitlines()
    heard: list[str] = []
    for line in lines:
        if line.startswith("READ"):
            heard.append(line.split()[1])
        if "translates" in line:
            named = [part.split()[0] for part in line.split("translates ")[1].split(" · ")]
            assert set(named) <= set(heard)
    assert any("translates" in line for line in lines)


def test_watch_on_a_terminal_leaves_the_transcript(model: Path, text: Path) -> None:
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "bethink", "translate", "--model", str(model), "--watch", str(text)]
    environment = {**ENVIRONMENT, "TERM": "xterm-256color", "COLUMNS": "100"}
    process = subprocess.Popen(command, stdout=follower, stdin=subprocess.DEVNULL, env=environment)
    os.close(follower)
    seen = b""
    while True:
        try:
            seen += os.read(leader, 1 << 16)
        except OSError:  # the terminal is gone with the process
            break
    os.close(leader)
    assert process.wait() == 0
    assert b"READ" in seen
    assert b"path" in seen
    assert b"rounds per written token" in seen


def test_the_default_model_translates_german(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("Guten Morgen, meine Damen und Herren!\n", encoding="utf-8")
    assert main(["translate", str(tmp_path / "text")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Good morning")
    assert err == ""

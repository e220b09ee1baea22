"""`bethink listen` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bethink.cli import main

RECORDING = Path(__file__).parents[1] / "recordings" / "moonshine.jsonl"


def test_stable_text_on_stdout_and_the_cost_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["listen", str(RECORDING)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].strip() == "Good morning, ladies and gentlemen."
    assert out.endswith("\n")
    assert "128 words; waiting until they were stable cost 500 ms and 3 words (median)" in err


def test_json_has_the_same_words_with_times(capsys: pytest.CaptureFixture[str]) -> None:
    main(["listen", str(RECORDING)])
    text = capsys.readouterr().out
    assert main(["listen", "--json", str(RECORDING)]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "".join("\n" if record.get("end") else f"{record['word']} " for record in records) == text
    assert [record["at"] for record in records] == sorted(record["at"] for record in records)


def test_a_bad_record_is_left_out_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text('{"partial": "ja"}\n{"lines": []}\n{broken\n{"text": "ja gut"}\n', encoding="utf-8")
    assert main(["listen", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == "ja gut \n"
    assert err.count("left out") == 1
    assert "record 2 of" in err


@pytest.mark.parametrize(
    ("text", "arguments", "code", "told"),
    [
        ('{"foo": 1}\n', [], 1, "record 1 of"),
        ("", ["--format", "vosc"], 2, "vosc"),
        ("", ["--hold", "-1"], 2, "hold=-1"),
        ("", [], 0, "there were no words"),
    ],
)
def test_what_cannot_be_used_is_told(
    tmp_path: Path, text: str, arguments: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text(text, encoding="utf-8")
    assert main(["listen", *arguments, str(path)]) == code
    assert told in capsys.readouterr().err


def test_stable_words_are_translated_like_typed_ones(
    model: Path, sentences: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guesses of vosk's form, made by rule: each word is first guessed without its last letter."""
    talk, path, records = [line.split() for line in sentences], tmp_path / "talk.jsonl", []
    for words in talk:
        for end in range(1, len(words) + 1):
            records += [
                {"partial": " ".join([*words[: end - 1], words[end - 1][:-1]])},
                {"partial": " ".join(words[:end])},
            ]
        records.append({"text": " ".join(words)})
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    assert main(["listen", str(path)]) == 0
    stable = tmp_path / "stable.txt"
    stable.write_text(capsys.readouterr().out, encoding="utf-8")
    assert [line.split() for line in stable.read_text("utf-8").splitlines()] == talk

    typed = tmp_path / "typed.txt"
    typed.write_text("".join(f"{line}\n" for line in sentences), encoding="utf-8")
    assert main(["translate", "--model", str(model), str(stable)]) == 0
    translated = capsys.readouterr().out
    assert main(["translate", "--model", str(model), str(typed)]) == 0
    assert capsys.readouterr().out == translated

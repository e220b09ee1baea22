"""The benchmarks run, count what they say they count, and leave numbers and a picture."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def bench(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *argv: str) -> dict[str, Any]:
    """In this process, where the heavy imports are done already."""
    numbers, picture = tmp_path / "numbers.json", tmp_path / "picture.svg"
    draws = name not in ("precision", "startup")
    out = ["--out", str(picture)] if draws else []
    monkeypatch.setattr(sys, "argv", [name, "--quick", "--json", str(numbers), *out, *argv])
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"), run_name="__main__")
    assert not draws or "<svg" in picture.read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(numbers.read_text(encoding="utf-8"))
    return found


def test_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = {each["who"]: each for each in bench("policies", tmp_path, monkeypatch, "--k", "3")["results"]}
    assert found["wait-k"]["ratio"] == 1
    assert found["wait-k"]["rows_per_token"] == 1
    assert found["pe"]["rows_per_token"] > found["pe"]["rounds_per_token"] > 1
    assert found["adaptive, ten models"]["rounds_per_token"] >= found["adaptive, one model"]["rounds_per_token"]
    assert "÷ wait-k" in capsys.readouterr().out


def test_scaling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = bench("scaling", tmp_path, monkeypatch)["results"]
    wait = {(each["panel"], each["size"]): each for each in results if each["policy"].startswith("wait-k")}
    assert wait["streams", 16]["rounds_per_token"] == pytest.approx(1 / 16, rel=0.01)  # one call for all of them
    assert {each["rows_per_token"] for each in wait.values()} == {1.0}  # nothing is computed twice, however long


def test_startup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = bench("startup", tmp_path, monkeypatch)
    assert found["first_word"] > found["loaded_to_first"] > 0
    assert found["memory"] > 10
    assert "installed" not in found


def test_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait, pe = bench("precision", tmp_path, monkeypatch)["results"]
    assert wait["decisions_met"] == wait["decisions_alike"] == 1, "a fixed policy decides by counting"
    assert wait["int8_LAAL"] == pytest.approx(wait["float32_LAAL"], abs=0.2)
    assert 0.5 < pe["decisions_met"] <= pe["decisions_alike"] <= 1
    assert pe["int8_BLEU"] == pytest.approx(pe["float32_BLEU"], abs=5)


def test_a_model_that_is_not_there_is_one_sentence() -> None:
    argv = [sys.executable, str(ROOT / "benchmarks" / "precision.py"), "nosuch"]
    told = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert "no model 'nosuch'" in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize("name", ["policies", "precision", "scaling", "startup"])
def test_help_teaches(name: str) -> None:
    argv = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), "--help"]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert f"python benchmarks/{name}.py --quick" in told


def test_the_example_follows_one_and_several() -> None:
    example, text = ROOT / "examples" / "embed.py", ROOT / "examples" / "toy.txt"
    argv = [sys.executable, str(example), "toy"]
    one = subprocess.run(argv, input=text.read_text("utf-8"), capture_output=True, text=True, check=True).stdout
    several = subprocess.run([*argv, str(text), str(text)], capture_output=True, text=True, check=True).stdout
    said = [line.removeprefix("toy.txt: ") for line in several.splitlines()]
    assert sorted(said) == sorted(2 * [word for chunk in one.split() for word in _apart(chunk)])


def test_the_example_speaks_german_by_default() -> None:
    argv = [sys.executable, str(ROOT / "examples" / "embed.py")]
    found = subprocess.run(argv, input="Guten Morgen.", capture_output=True, text=True, check=True).stdout
    assert found == "Good morning.\n"


def _apart(word: str) -> list[str]:
    """Punctuation is a step of its own."""
    return [word[:-1], word[-1]] if word[-1] in ".," else [word]

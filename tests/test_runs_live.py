"""The scripts on live use: COMET of logs, and the records and pages of haste and of an hour of talk."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bethink.evaluate import Instance, Result, write_results
from tests.evaluate.made import write_log

ROOT = Path(__file__).parents[1]
FAKE = """
from types import SimpleNamespace
def download_model(name):
    if name == "unknown":
        raise KeyError("Model 'unknown' not supported by COMET.")
    return name
def load_from_checkpoint(name):
    share = lambda data: sum(one["mt"] == one["ref"] and one["src"] == "ja" for one in data) / len(data)
    return SimpleNamespace(predict=lambda data, batch_size, gpus: SimpleNamespace(system_score=share(data)))
"""


def comet(*argv: object, beside: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "runs" / "comet_scores.py"), *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(beside or "")})


@pytest.fixture
def log(tmp_path: Path) -> Path:
    said = [Instance(n, "ja", "yes", prediction, 1, (1,)) for n, prediction in enumerate(["yes", "no"])]
    write_log(tmp_path / "instances.log", said)
    return tmp_path / "instances.log"


def test_records_keep_what_is_said_about_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "runs"))
    live = importlib.import_module("live_pages")
    monkeypatch.setattr(live, "LOGS", tmp_path)
    record = json.loads((ROOT / "runs" / "logs" / "haste.json").read_text("utf-8"))
    results = [Result.from_dict(each) for each in record["results"]]
    write_results(tmp_path / "results.json", results)
    live.main("haste", tmp_path)
    (tmp_path / "haste.json").write_text(json.dumps({"title": "T", "about": "A", "results": []}))
    live.main("haste", tmp_path)
    made = json.loads((tmp_path / "haste.json").read_text("utf-8"))
    assert made == {"title": "T", "about": "A", "results": [result.to_dict() for result in results]}
    assert live.haste(made).startswith("# Haste\n\nA\n\n**T**")


def test_a_page_of_several_models_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "runs"))
    live = importlib.import_module("live_pages")
    monkeypatch.setattr(live, "LOGS", tmp_path)
    [first, *_] = json.loads((ROOT / "runs" / "logs" / "words.json").read_text("utf-8"))["sets"]
    results = [Result.from_dict(each) for each in first["results"]]
    for model in ("judged", "de-en", "other"):
        (tmp_path / "talks" / model).mkdir(parents=True)
        write_results(tmp_path / "talks" / model / "results.json", results)
    live.main("converted", tmp_path)
    page = live.converted(json.loads((tmp_path / "converted.json").read_text("utf-8")))
    assert [page.count(f"| talks | {name} |") for name in ("converted", "bundled, causal", "other")] == [3, 3, 0]


def test_comet_scores_a_log(log: Path, tmp_path: Path) -> None:
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake" / "comet.py").write_text(FAKE)
    done = comet(log, "--out", tmp_path / "scores.json", beside=tmp_path / "fake")
    assert done.stdout.startswith("0.5000  Unbabel/wmt22-comet-da  "), done.stderr
    assert json.loads((tmp_path / "scores.json").read_text())["scores"] == {str(log): 0.5}
    (tmp_path / "sources").write_text("nein\nja\n")
    assert comet(log, "--source", tmp_path / "sources", beside=tmp_path / "fake").stdout.startswith("0.0000")
    unknown = comet(log, "--model", "unknown", beside=tmp_path / "fake")
    assert unknown.returncode == 1
    assert "cannot load unknown" in unknown.stderr


def test_what_comet_lacks_is_said_in_one_sentence(log: Path, tmp_path: Path) -> None:
    for argv, message in (
        ([log], "COMET is not installed; run: pip install unbabel-comet"),
        ([tmp_path / "none"], "cannot read the sentences to score"),
        ([log, "--source", ROOT / "LICENSE"], "sentences; give an instances.log"),
    ):
        done = comet(*argv)
        assert done.returncode == 1
        assert message in done.stderr
        assert done.stderr.count("\n") == 1

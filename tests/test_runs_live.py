"""The scripts on live use: COMET of logs, and the records and pages of haste and of an hour of talk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bethink.evaluate import Instance
from bethink.evaluate.instances import write_log

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

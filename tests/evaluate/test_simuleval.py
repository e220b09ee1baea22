"""Our agent under the real SimulEval, and our log read by OmniSTEval: their numbers are ours.

Both need packages that bethink does not: `pip install simuleval==1.1.4 onnxruntime sentencepiece rich` and `pip install omnisteval`
each in an environment of its own, whose Python $BETHINK_SIMULEVAL and $BETHINK_OMNISTEVAL then name.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import bethink
from bethink import toy
from bethink.evaluate import Scores, evaluate
from bethink.policy import parse
from bethink.translator import Translator

HERE, SOURCE = Path(__file__).parent, Path(bethink.__file__).parent.parent
MODEL = SOURCE.parent / "models" / "toy"
POLICIES = ("wait-k:k=3", "adaptive:rho_1=0.6", "pe:k=1,rho=0.2,r=8", "offline")


def interpreter(name: str, package: str) -> str:
    """The Python that an environment variable names, if it has the package."""
    python = os.environ.get(name)
    if not python:
        pytest.skip(f"${name} is not set; make an environment with '{package}' and let it name its Python")
    found = subprocess.run([python, "-c", f"import {package}"], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"{python} cannot import {package}: {found.stderr.strip().splitlines()[-1]}")
    return python


def run(*command: object) -> str:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ours(scores: Scores, without: tuple[str, ...] = ("CW",)) -> dict[str, float]:
    measures = {name: value for name, value in scores.latency["simuleval"].items() if name not in without}
    return {"BLEU": scores.quality["standard"]["BLEU"].score, **measures}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("toy")
    pairs = list(toy.sentences(100, seed=102))
    for side in ("source", "target"):
        (folder / side).write_text("".join(f"{getattr(pair, side)}\n" for pair in pairs), "utf-8")
    return folder / "source", folder / "target"


@pytest.mark.parametrize("policy", POLICIES)
def test_the_agent_scores_under_simuleval_what_it_scores_here(
    policy: str, files: tuple[Path, Path], tmp_path: Path
) -> None:
    python = interpreter("BETHINK_SIMULEVAL", "simuleval")
    sources, references = ([*file.read_text("utf-8").splitlines()] for file in files)
    [result] = evaluate(Translator(MODEL, threads=1), sources, references, [parse(policy)], tmp_path / "ours")
    printed = run(python, HERE / "simuleval_run.py", *files, tmp_path / "theirs", MODEL, policy)
    theirs = json.loads(printed.splitlines()[-1])
    assert ours(result.scores, ("CW", "YAAL")) == pytest.approx(theirs, abs=1e-6)
    log = [json.loads(line) for line in (tmp_path / "theirs" / "instances.log").read_text("utf-8").splitlines()]
    mine = [json.loads(line) for line in (tmp_path / "ours" / result.log).read_text("utf-8").splitlines()]
    assert [(one["prediction"], one["delays"]) for one in mine] == [(one["prediction"], one["delays"]) for one in log]


def test_omnisteval_reads_the_log(files: tuple[Path, Path], tmp_path: Path) -> None:
    """It prints four decimals."""
    python = interpreter("BETHINK_OMNISTEVAL", "omnisteval")
    sources, references = ([*file.read_text("utf-8").splitlines()] for file in files)
    [result] = evaluate(Translator(MODEL, threads=1), sources, references, [parse(POLICIES[2])], tmp_path)
    command: list[Any] = [Path(python).parent / "omnisteval", "shortform", "--word_level"]
    command += ["--hypothesis_file", tmp_path / result.log, "--ref_sentences_file", files[1]]
    run(*command, "--output_folder", tmp_path / "omnisteval")
    rows = [line.split("\t") for line in (tmp_path / "omnisteval" / "scores.tsv").read_text("utf-8").splitlines()]
    theirs = {name.removesuffix(" (CU)"): value for name, value in rows}
    assert "YAAL" in ours(result.scores)
    assert {name: float(theirs[name]) for name in ours(result.scores)} == pytest.approx(ours(result.scores), abs=6e-5)

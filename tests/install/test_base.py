"""A real environment with nothing but the base install, in another folder than the clone: it translates, and PyTorch is not there."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from bethink.translator import Translator
from tests.install.conftest import ROOT, Environment

EXTRAS = ("torch", "matplotlib", "sacrebleu", "onnx", "fastapi", "uvicorn", "websockets", "pytest")
SENTENCE = "Guten Morgen, meine Damen und Herren!"


def test_none_of_the_extras_can_be_imported(base: Environment) -> None:
    program = f"import importlib.util as u; print([name for name in {EXTRAS} if u.find_spec(name)])"
    assert base.run("python", "-c", program).stdout == "[]\n"
    assert "site-packages" in base.run("python", "-c", "import bethink; print(bethink.__file__)").stdout


@pytest.mark.parametrize("command", [["bethink"], ["python", "-m", "bethink"]], ids=["script", "module"])
def test_it_translates(command: list[str], base: Environment) -> None:
    expected = Translator(ROOT / "models" / "de-en", threads=1).translate(SENTENCE)
    assert base.run(*command, "translate", text=SENTENCE).stdout == f"{expected}\n"


def test_it_translates_for_a_program(base: Environment) -> None:
    program = (
        f"from bethink import Translator; print(Translator('toy').translate({SENTENCE!r}), Translator('de-en').name)"
    )
    assert base.run("python", "-c", program).stdout.endswith(" de-en\n")


def test_what_people_look_at_first(base: Environment, tmp_path: Path) -> None:
    """Watching, explaining, benchmarking and latency need no extra."""
    (tmp_path / "source").write_text("te himu nakoru .\n")
    assert "WRITE" in base.run("bethink", "translate", "--model", "toy", "--watch", tmp_path / "source").stdout
    assert "because" in base.run("bethink", "explain", "Guten Morgen!").stdout
    bench = base.run("bethink", "bench", "--model", "toy", "--policy", "offline", "--repeat", "1", "--json")
    assert json.loads(bench.stdout)["policies"][0]["tokens"] > 0
    files = ["--source", tmp_path / "source", "--reference", tmp_path / "source", "--out", tmp_path / "out"]
    table = base.run("bethink", "evaluate", "--model", "toy", *files).stdout
    assert "BLEU needs the 'train' extra" in table


def test_the_hint_for_an_extra_installs_it(artefacts: tuple[Path, Path], base: Environment) -> None:
    """Last, for it changes the environment: `bethink serve` says what is missing, that command is run, and it serves."""
    refused = base.run("bethink", "serve", "--port", "0", "--model", "toy", check=False)
    assert refused.returncode == 1
    told, _, command = refused.stderr.strip().partition("; install it with: ")
    assert told == "bethink: serving needs the 'serve' extra"
    assert shlex.split(command) == ["pip", "install", f"bethink[serve] @ {artefacts[1].as_uri()}"]
    base.run("bash", "-c", f"{command} --quiet -c {ROOT / 'constraints.txt'}")
    serve = [base.path / "bin" / "bethink", "serve", "--port", "0", "--model", "toy"]
    with subprocess.Popen(serve, cwd=base.path, stderr=subprocess.PIPE, text=True, env={}) as process:
        try:
            assert process.stderr is not None
            told, _, address = process.stderr.readline().strip().partition(" on ")
            assert told == "bethink: serving toy"
            with urllib.request.urlopen(f"{address}/health", timeout=60) as answer:  # the socket listens already
                assert json.load(answer)["status"] == "ready"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()  # a server that goes on would keep the test from ending


def test_the_hint_in_a_clone_is_one_that_pip_understands(base: Environment) -> None:
    program = (
        "import sys; sys.path[:0] = [sys.argv[1]]; from bethink.errors import install_command as i; print(i('serve'))"
    )
    command = base.run("python", "-c", program, ROOT / "src").stdout.strip()
    assert command == f"pip install -c {ROOT}/constraints.txt -e '{ROOT}[serve]'"
    base.run("bash", "-c", f"{command} --quiet --dry-run")

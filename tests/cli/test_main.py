"""The frame of the command line: help, errors, exit codes, and what starting up costs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bethink
from bethink.cli import main, parser
from bethink.errors import install_command

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(bethink.__file__).parent.parent)}

VERBS = (
    "translate",
    "listen",
    "serve",
    "captions",
    "explain",
    "evaluate",
    "plot",
    "analyze",
    "prepare",
    "train",
    "average",
    "distill",
    "judge",
    "export",
    "convert",
    "bench",
)


def sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence on stderr, without the program's name."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("bethink: ")
    assert err.count("\n") == 1
    return err.removeprefix("bethink: ").strip()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    out = capsys.readouterr().out
    paragraph = out.split("\n\n")[1]
    assert len(paragraph.split()) > 15
    assert out.split("examples:")[1].count(f"  bethink {verb}") >= 2


def test_help_lists_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out.split("COMMAND\n")[1].split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == list(VERBS)


def test_without_a_verb_the_help_comes_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert "commands:" in err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("bethink 0")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["translat"], "Did you mean 'translate'?"),
        (["translate", "--policy", "waitk:3"], "Did you mean 'wait-k'?"),
        (["translate", "--rate", "slow"], "'slow' must be a number above 0; see: bethink translate --help"),
        (["bench", "--streams", "0"], "'0' must be a whole number of at least 1"),
        (["translate", "--json", "--watch"], "not allowed with"),
        (["translate", "--polcy", "offline"], "no option of bethink translate named '--polcy'"),
        (["analyze", "degree", "--polcy=pe"], "Did you mean '--policy'?"),
        (["--versoin"], "Did you mean '--version'?"),
        (["translate", "one.txt", "two.txt"], "unrecognized arguments: two.txt; see: bethink translate --help"),
        (["plot", "results"], "required: --out"),
        (["evaluate", "--source", "a"], "--reference is missing"),
        (
            ["evaluate", "--source", "a", "--reference", "b", "--out", "c", "--model", "m", "--models", "n"],
            "cannot be combined",
        ),
    ],
)
def test_wrong_usage_is_one_sentence_and_2(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert words in sentence(capsys)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["translate", "nowhere.txt"], "nowhere.txt: no such file or directory"),
        (["translate", "."], ".: is a directory"),
        (["translate", "--model", "klingon", "/dev/null"], "no model 'klingon'"),
        (["plot", "nowhere.json", "--out", "x.svg"], "cannot read nowhere.json"),
        (["evaluate", "--rescore", "nowhere.log"], "cannot read nowhere.log"),
        (["average", "nowhere"], "nowhere has no checkpoint"),
        (["explain", "  "], "no word"),
    ],
)
def test_other_errors_are_one_sentence_and_1(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 1
    assert words in sentence(capsys)


def test_no_model_at_all_says_where_it_looked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bethink.folder._places", lambda: iter([tmp_path / "elsewhere"]))
    assert main(["translate", "/dev/null"]) == 1
    told = sentence(capsys)
    assert "de-en" in told
    assert str(tmp_path / "elsewhere") in told
    assert "--model" in told


def test_a_traceback_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BETHINK_TRACEBACK", "1")
    with pytest.raises(FileNotFoundError):
        main(["translate", "nowhere.txt"])


@pytest.mark.parametrize("verb", ["prepare", "train", "average", "distill", "judge", "export"])
def test_without_torch_the_fix_is_named(
    verb: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = [name for name in sys.modules if name.startswith(("bethink.train", "bethink.model.", "bethink.export"))]
    for name in sorted(gone, reverse=True):  # from a package, too, or later tests would find another module there
        package, _, module = name.rpartition(".")
        monkeypatch.delattr(sys.modules[package], module, raising=False)
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    argv = {
        "prepare": ["tiny", "--out", "o"],
        "train": ["tiny", "--data", "d", "--run", "r"],
        "distill": ["run", "--source", "text", "--to", "o"],
        "judge": ["run", "--source", "text", "--to", "o"],
        "export": [str(model), "--to", str(tmp_path / "t")],
    }
    assert main([verb, *argv.get(verb, ["run"])]) == 1
    assert sentence(capsys).endswith(f"needs the 'train' extra; install it with: {install_command('train')}")


def test_starting_up_imports_nothing_heavy() -> None:
    code = "import sys; from bethink.cli import main; main(['--help']); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT
    ).stdout.split()
    assert not {"torch", "numpy", "rich", "onnxruntime", "sentencepiece", "matplotlib"} & set(loaded)


def test_an_interrupt_is_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bethink.cli.translate.source", interrupted)
    assert main(["translate"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_reader_that_leaves_is_no_error(model: Path, text: Path) -> None:
    command = f"'{sys.executable}' -m bethink translate --model '{model}' --json '{text}' | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_sentence(model: Path, text: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "bethink", "translate", "--model", str(model), str(text)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=ENVIRONMENT,
        )
    assert done.returncode == 1
    assert done.stderr == "bethink: cannot go on: no space left on device\n"


@pytest.mark.parametrize("argv", [["--help"], ["explain", "a"]])
def test_a_closed_standard_output_is_one_sentence(argv: list[str]) -> None:
    command = ["bash", "-c", '"$@" >&-', "-", sys.executable, "-m", "bethink", *argv]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 1
    assert done.stderr.startswith("bethink: there is no standard output to write to")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("device", ["foo", "meta", "cuda:99"])
@pytest.mark.parametrize("verb", ["translate", "evaluate", "bench"])
def test_a_device_that_is_not_there(
    verb: str, device: str, model: Path, text: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--source", str(text), "--reference", str(references), "--out", "o"] if verb == "evaluate" else []
    argv = [verb, *files, "--model", str(model), "--device", device, *([str(text)] if verb == "translate" else [])]
    assert main(argv) == 2
    assert f"device {device}" in sentence(capsys).replace("named ", "").replace("'", "")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_shtab_completes_verbs_and_flags(shell: str) -> None:
    """What `bethink --help` says: shtab, a library of its own, reads our parser."""
    shtab = pytest.importorskip("shtab")
    script = shtab.complete(parser(), shell)
    assert all(verb in script for verb in VERBS)
    assert "--quality-profile" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize("verb", ["translate", "explain", "evaluate", "serve", "bench", "judge", "analyze"])
@pytest.mark.parametrize("threads", ["99999", "65000000000"])
def test_threads_have_a_bound(
    verb: str, threads: str, model: Path, text: Path, references: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ["--model", str(model)]
    argv = {
        "translate": [str(text), *named],
        "explain": ["te himu", *named],
        "evaluate": ["--source", str(text), "--reference", str(references), "--out", "o", *named],
        "serve": ["--port", "0", *named],
        "bench": named,
        "judge": [str(model), "--source", str(text), "--to", "o"],
        "analyze": ["robustness", "--source", str(text), "--target", str(references), *named],
    }[verb]
    assert main([verb, *argv, "--threads", threads]) == 2
    assert sentence(capsys).startswith(f"threads is {threads}, expected 1 to ")


@pytest.mark.parametrize("flags", [["--backend", "torch"], ["--device", "cuda"], ["--device", "cpu"]])
def test_torch_without_weights_says_what_to_do(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "--model", "toy", *flags, "/dev/null"]) == 1
    told = sentence(capsys)
    assert "has no weights for torch" in told
    assert "leave the backend and the device out" in told
    assert "bethink export RUN --to DIR --weights" in told


def test_onnx_without_graphs_says_what_to_do(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "--model", str(model), "--backend", "onnx", "/dev/null"]) == 1
    assert sentence(capsys).endswith(f"has no ONNX graphs; make them with: bethink export {model} --to DIR")

"""Every code block of README.md and docs/protocol.md runs, in order, in a copy of the clone; commands inside the text exist.

- A block without a language, or with `sh`, is a shell script. Lines that begin with a command of SHORTER get flags that make them
  quick; a server is started and stopped again when it answers.
- `python` is run as a program, with a server at the address that the documents use, http://127.0.0.1:8080.
- `json` is one or more JSON values, in which … stands for something left out.
- `text` is not code.
- A block that cannot be run here says so in a comment before it, which readers of the source see: <!-- not run: takes an hour -->
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bethink import toy
from bethink.cli import parser
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "docs/protocol.md")
ADDRESS = "127.0.0.1:8080"
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>.+?) -->\n+)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
SHORTER = {
    "bethink train": "train.updates=2 train.validate=2 train.log=1 --device cpu",
    "bethink judge": "--lines 30 --device cpu",
    "bethink bench": "--repeat 1",
    "bethink serve": "",
    "pip install": "--dry-run --quiet",
}


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    line: int
    reason: str | None  # why it is not run

    @property
    def is_shell(self) -> bool:
        return self.language in ("", "sh")


def text_of(document: str) -> str:
    return (ROOT / document).read_text("utf-8")


def blocks(document: str) -> list[Block]:
    text = text_of(document)
    assert text.count("\n```") % 2 == 0, f"a code block in {document} has no end"
    found = list(FENCE.finditer(text))
    return [Block(m["language"], m["code"], text[: m.start("code")].count("\n") + 1, m["reason"]) for m in found]


@pytest.fixture(scope="module", params=DOCUMENTS)
def document(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the clone in which nothing that runs can do harm, with files under the names that documents invent."""
    folder = tmp_path_factory.mktemp("documentation") / "bethink"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "data", "de-en", "results")
    shutil.copytree(ROOT, folder, ignore=ignored)
    (folder / "models" / "de-en").symlink_to(ROOT / "models" / "de-en")
    sample = [
        line.split("\t") for line in (ROOT / "tests/system/golden/sample.tsv").read_text("utf-8").splitlines()[:8]
    ]
    pairs = list(toy.sentences(8, seed=105))
    made = {
        "test.de": [source for source, _ in sample],
        "test.en": [target for _, target in sample],
        "speech.txt": [source for source, _ in sample],
        "my-talks.de": [source for source, _ in sample] * 20,
        "a.de": [source for source, _ in sample],
        "a.en": [target for _, target in sample],
        "a.talp": [" ".join(f"{n + 1}-{n + 1}" for n in range(3)) for _ in pairs],
    }
    for name, lines in made.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    (folder / "bin").mkdir()
    (folder / "bin" / "bethink").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m bethink "$@"\n')
    (folder / "bin" / "bethink").chmod(0o755)
    return folder


def environment(workspace: Path) -> dict[str, str]:
    path = f"{workspace / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


def prepared(code: str) -> str:
    """A shell script with its long commands made short."""
    lines = []
    for line in code.splitlines():
        command, comment, rest = line.partition(" #")
        for beginning, flags in SHORTER.items():
            if command.lstrip().startswith(beginning):
                command = f"{command.rstrip()} {flags}"
        lines.append(re.sub(r"--rate \d+", "--rate 100000", command) + comment + rest)
    return "\n".join(lines)


def run_shell(code: str, workspace: Path) -> None:
    assert not re.search(r"^make (?!serve)", code, re.MULTILINE), f"it would install and test in turn; mark it:\n{code}"
    script, servers = [], []
    for line in prepared(code).splitlines():
        (servers if line.startswith(("bethink serve", "make serve")) else script).append(line)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(script)],
        cwd=workspace,
        env=environment(workspace),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    for server in servers:
        with serving(shlex.split(server, comments=True)[2:], workspace):
            pass


@contextlib.contextmanager
def serving(options: list[str], workspace: Path) -> Iterator[str]:
    """A server that answers, and its address."""
    address = f"127.0.0.1:{free_port()}"
    command = [
        workspace / "bin" / "bethink",
        "serve",
        *options,
        "--host",
        "127.0.0.1",
        "--port",
        address.partition(":")[2],
    ]
    process = subprocess.Popen(command, cwd=workspace, env=environment(workspace))
    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                with urllib.request.urlopen(f"http://{address}/health", timeout=5):
                    break
            except OSError:
                assert process.poll() is None, f"{command} ended"
                assert time.monotonic() < deadline, f"{command} does not answer"
                time.sleep(0.2)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_every_block_is_of_a_known_kind(document: str) -> None:
    found = blocks(document)
    assert found
    assert {block.language for block in found} <= {"", "sh", "python", "json", "text"}
    assert len([block for block in found if block.reason]) <= 2  # the exception, not the rule


def test_shell_blocks_run(document: str, workspace: Path) -> None:
    for block in blocks(document):
        if block.is_shell and block.reason is None:
            run_shell(block.code, workspace)


def test_python_blocks_run(document: str, workspace: Path) -> None:
    found = [block for block in blocks(document) if block.language == "python" and block.reason is None]
    with contextlib.ExitStack() as stack:
        address = ADDRESS
        if any(ADDRESS in block.code for block in found):
            address = stack.enter_context(serving([], workspace))
        for block in found:
            code = block.code.replace(ADDRESS, address)
            command = [sys.executable, "-X", "dev", "-W", "error", "-c", code]
            done = subprocess.run(command, cwd=workspace, env=environment(workspace), capture_output=True, text=True)
            assert done.returncode == 0, f"{document}, line {block.line}: {done.stderr}"


def test_json_blocks_are_json(document: str) -> None:
    for block in blocks(document):
        rest = block.code.replace("{…}", "{}").strip() if block.language == "json" else ""
        while rest:
            _, end = json.JSONDecoder().raw_decode(rest)
            rest = rest[end:].strip()


def test_commands_in_the_text_exist(document: str) -> None:
    """Verbs and flags of every `bethink …`, in the text and in blocks that are not run; targets of every `make …`."""
    shell = [line for block in blocks(document) if block.is_shell for line in block.code.splitlines()]
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for code in (*INLINE.findall(FENCE.sub("", text_of(document))), *shell):
        words = code.partition(" #")[0].replace("…", "").split()
        if words[:1] == ["make"] and len(words) > 1:
            assert words[1] in targets, code
        if words[:1] == ["bethink"]:
            flags = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
            assert flags <= known_flags(parser(), words[1:]), code


def known_flags(at: ArgumentParser, words: list[str]) -> set[str]:
    """The flags of the command that the words begin with; a command that does not exist is an error."""
    flags = set(at._option_string_actions)
    for action in at._actions:
        if isinstance(action, _SubParsersAction) and words and not words[0].startswith("-"):
            return flags | known_flags(action.choices[words[0]], words[1:])
    return flags


def test_links_lead_somewhere(document: str) -> None:
    folder = (ROOT / document).parent
    for target in LINK.findall(text_of(document)):
        if "://" not in target:
            assert (folder / target).exists(), target

"""Every example runs as its first lines say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bethink import Translator, toy

EXAMPLES = Path(__file__).parents[2] / "examples"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent / "src"), "OMP_NUM_THREADS": "1"}


def run(*command: object, text: str = "", cwd: Path = EXAMPLES) -> str:
    done = subprocess.run(
        [*map(str, command)], input=text, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return [pair.source for pair in toy.sentences(3, seed=106)]


def test_every_example_is_here() -> None:
    """Those that are tested here; tests/serve/test_rooms.py runs speak.py, and recognise.py needs a recogniser (tests/recordings)."""
    tested = {"embed.py", "punctuation_policy.py", "simuleval_agent.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested | {"speak.py", "recognise.py"}


def test_embedding_one_speaker(lines: list[str]) -> None:
    spoken = "\n".join(lines)
    assert run(sys.executable, "embed.py", "toy", text=spoken) == Translator("toy").translate(spoken) + "\n"


def test_embedding_several_speakers(lines: list[str], tmp_path: Path) -> None:
    for n, line in enumerate(lines):
        (tmp_path / f"{n}.txt").write_text(f"{line}\n", "utf-8")
    out = run(sys.executable, "embed.py", "toy", *sorted(tmp_path.iterdir())).splitlines()
    for n, line in enumerate(lines):
        words = [text.partition(": ")[2] for text in out if text.startswith(f"{n}.txt")]
        assert " ".join(words).replace(" .", ".").replace(" ,", ",") == Translator("toy").translate(line)


def test_a_policy_of_ones_own() -> None:
    command = [sys.executable, "-m", "bethink", "translate", "--policy", "punctuation_policy:Punctuation"]
    assert run(*command, "talk.de.txt").count("\n") == (EXAMPLES / "talk.de.txt").read_text("utf-8").count("\n")


def test_the_agent_under_the_simuleval_command(lines: list[str], tmp_path: Path) -> None:
    if "BETHINK_SIMULEVAL" not in os.environ:
        pytest.skip("$BETHINK_SIMULEVAL does not name the Python of an environment with simuleval==1.1.4")
    simuleval = Path(os.environ["BETHINK_SIMULEVAL"]).with_name("simuleval")
    for name in ("source.txt", "reference.txt"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    files = ["--source", "source.txt", "--target", "reference.txt", "--output", "results"]
    run(simuleval, "--agent", EXAMPLES / "simuleval_agent.py", "--model", "toy", *files, cwd=tmp_path)
    assert (tmp_path / "results" / "instances.log").read_text("utf-8").count("\n") == len(lines)

"""What a user gets: the artefacts of a release, and an environment with nothing but the wheel in it."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Environment:
    """A virtual environment that knows nothing of the clone or of the one that runs the tests."""

    def __init__(self, path: Path) -> None:
        venv.create(path, with_pip=True)
        self.path = path

    def run(self, *command: object, check: bool = True, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """A command of this environment, somewhere else than in the clone."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BETHINK"))}
        changes = {"PATH": f"{self.path / 'bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*map(str, command)],
            input=text,
            cwd=self.path,
            env=kept | changes,
            capture_output=True,
            text=True,
        )
        if "Failed to establish a new connection" in done.stderr:  # pip, without a network
            pytest.skip("the package index cannot be reached")
        assert not check or done.returncode == 0, done.stderr
        return done

    def install(self, *what: object) -> None:
        self.run(self.path / "bin" / "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", *what)


@pytest.fixture(scope="session")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source archive and the wheel made from it, as for a release."""
    pytest.importorskip("build", reason="build, of the dev extra, is not installed")
    pytest.importorskip("hatchling", reason="hatchling, of the dev extra, is not installed")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [archive], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return archive, wheel


@pytest.fixture(scope="session")
def base(artefacts: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel and what it depends on, no extra."""
    made = Environment(tmp_path_factory.mktemp("base") / "environment")
    made.install(artefacts[1])
    return made

"""The artefacts of a release hold what they should and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.install.conftest import ROOT

MODELS = {"de-en", "toy"}
RECIPES = {"de-en", "de-en-live", "en-de", "en-vi", "iwslt14-en-de", "iwslt15-en-vi", "tiny", "wmt15-de-en"}


@pytest.fixture(scope="module")
def names(artefacts: tuple[Path, Path]) -> set[str]:
    with zipfile.ZipFile(artefacts[1]) as wheel:
        return set(wheel.namelist())


def files(folder: Path) -> set[str]:
    """What lies in a folder, caches aside."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if "__pycache__" not in path.parts}


def test_the_wheel_holds_the_package_and_the_bundled_models(names: set[str]) -> None:
    expected = {f"bethink/{name}" for name in files(ROOT / "src" / "bethink")}
    for model in MODELS:
        expected |= {f"bethink/models/{model}/{name}" for name in files(ROOT / "models" / model)}
    about = {name for name in names if name.startswith("bethink-")}
    assert names - about == expected
    assert {name.partition("/")[2] for name in about} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }


def test_nothing_that_is_needed_is_missing_from_the_package_itself(names: set[str]) -> None:
    """The test above would not notice what has gone from the clone as well."""
    for model in MODELS:
        for file in ("config.json", "encoder.onnx", "decoder.onnx", "MODEL_CARD.md"):
            assert f"bethink/models/{model}/{file}" in names
    recipes = {Path(name).stem for name in names if name.startswith("bethink/recipes/") and name.endswith(".toml")}
    assert recipes == RECIPES
    page = {Path(name).suffix for name in names if name.startswith("bethink/serve/page/")}
    assert {".html", ".css", ".js", ".woff2"} <= page
    assert "bethink/py.typed" in names


def test_the_metadata_is_that_of_the_project(artefacts: tuple[Path, Path]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    with zipfile.ZipFile(artefacts[1]) as wheel:
        [name] = [name for name in wheel.namelist() if name.endswith("/METADATA")]
        metadata = Parser().parsestr(wheel.read(name).decode())
    assert (metadata["Name"], metadata["Version"]) == ("bethink", project["version"])
    assert set(metadata.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert len(required) == len(project["dependencies"])


def test_the_source_archive_can_be_built_and_tested_from(artefacts: tuple[Path, Path]) -> None:
    with tarfile.open(artefacts[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("pyproject.toml", "README.md", "LICENSE", "Makefile", "constraints.txt", "tests/conftest.py"):
        assert name in names
    assert not [name for name in names if "__pycache__" in name or name.startswith((".venv", ".git/", "data/"))]


def test_an_index_would_take_them(artefacts: tuple[Path, Path]) -> None:
    pytest.importorskip("twine", reason="twine, of the dev extra, is not installed")
    command = [sys.executable, "-m", "twine", "check", "--strict", *artefacts]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert max(path.stat().st_size for path in artefacts) < 100 * 2**20  # what PyPI takes by default

"""What is missing is a skip on somebody's machine and a failure in continuous integration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest

@pytest.fixture
def browser():
    pytest.skip("no Chromium here")

def test_browser(browser): ...

@pytest.mark.skipif(True, reason="no GPU here")
def test_gpu(): ...

@pytest.mark.xfail(strict=True)
def test_known(): assert False
"""


@pytest.mark.parametrize(("ci", "outcome"), [("true", "1 skipped, 1 xfailed, 2 errors"), ("", "3 skipped, 1 xfailed")])
def test_what_is_missing(ci: str, outcome: str, tmp_path: Path) -> None:
    (tmp_path / "test_parts.py").write_text(TESTS)
    (tmp_path / "test_module.py").write_text("import pytest\npytest.importorskip('no_such_package')\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.no_skips", "--continue-on-collection-errors"]
    environment = {**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, tmp_path], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1].startswith(outcome), done.stdout
    assert bool(done.returncode) == (ci == "true")

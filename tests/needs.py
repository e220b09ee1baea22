"""What a test needs beside bethink: without it the test is skipped, but in continuous integration it fails."""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import NoReturn

import pytest

CI = os.environ.get("CI") == "true"


def missing(reason: str) -> NoReturn:
    """Something is not here that this test needs."""
    if CI:
        pytest.fail(f"in continuous integration nothing may be missing: {reason}")
    pytest.skip(reason)


def needed(module: str) -> ModuleType:
    """A module of the dev extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing(f"{error}; install the dev extra")

"""In continuous integration (CI=true) nothing may be missing: a test that would be skipped there fails.

`tests/conftest.py` takes these hooks over for all tests.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

ALLOWED = ("no GPU", "Ray is not installed", "a model without capsules has no degrees")  # what a reason may contain


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _strict((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _strict((yield))


def _strict(report: Any) -> Any:
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(allowed in reason for allowed in ALLOWED):
            report.outcome = "failed"
            report.longrepr = f"skipped, but in continuous integration nothing may be missing: {reason}"
    return report

"""Whatever the OpenAPI document allows, and much that it does not, gets an answer that the document describes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from bethink.serve.app import create_app
from bethink.serve.service import Service
from tests.serve.conftest import close_rooms
from tests.serve.servers import PATIENCE, Running

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis, of the dev extra, is not installed")
checks = pytest.importorskip("schemathesis.specs.openapi.checks")
schema = schemathesis.openapi.from_dict(create_app(Service([])).openapi())


@schema.parametrize()
@settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
def test_the_document_is_true(case: Any, server: Running) -> None:
    """But which policies and models there are is not for the document to say, so a refusal of those is no lie."""
    close_rooms(server)  # one address may have few
    case.call_and_validate(base_url=server.http, timeout=PATIENCE, excluded_checks=[checks.positive_data_acceptance])

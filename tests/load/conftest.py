"""The same model and servers as in tests/serve."""

from __future__ import annotations

from tests.serve.conftest import model, server, translator

__all__ = ["model", "server", "translator"]

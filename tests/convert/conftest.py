"""Each small model is trained and converted once for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from bethink.convert import convert
from tests.convert.hub import write_m2m, write_marian


@pytest.fixture(scope="session")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_marian(tmp_path_factory.mktemp("hub") / "toy-marian")


@pytest.fixture(scope="session")
def converted(marian: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convert(marian, tmp_path_factory.mktemp("models") / "marian", target="fra", precision="float32")


@pytest.fixture(scope="session")
def m2m(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_m2m(tmp_path_factory.mktemp("hub") / "toy-m2m", listed=True)


@pytest.fixture(scope="session")
def able(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Marian model that translates whole sentences well, converted to int8 without weights."""
    path, sizes = tmp_path_factory.mktemp("models"), {"d_model": 64, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128}
    hub = write_marian(path / "hub", steps=600, count=8000, batch=64, **sizes)
    return convert(hub, path / "able", target="fra")

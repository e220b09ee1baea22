from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from bethink.train.prepare import prepare
from bethink.train.recipe import Recipe

SMALL = (
    "data.toy=200",
    "model.width=16",
    "model.hidden=16",
    "model.heads=2",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "model.dropout=0.1",
    "model.capsules.width=8",
    "model.capsules.hidden=8",
    "train.tokens=300",
    "train.buckets=2",
    "train.warmup=4",
    "train.schedule=inverse-sqrt",
    "train.updates=6",
    "train.save=2",
    "train.log=2",
    "train.validate=6",
)


@pytest.fixture
def small() -> Callable[..., Recipe]:
    """The tiny recipe, made so small that an update takes milliseconds; `changes` as on the command line."""
    return lambda *changes: Recipe.load("tiny", [*SMALL, *changes])


@pytest.fixture(scope="session")
def toy_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy") / "data"
    return prepare(Recipe.load("tiny", SMALL), folder.parent, folder, Console(file=io.StringIO()))

"""A tiny model with random weights that speaks the toy language's words, in a folder like any other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from bethink import folder, toy
from bethink.model.config import CapsuleConfig, ModelConfig
from bethink.model.transformer import Transformer
from bethink.model.weights import unique_tensors
from bethink.text import Words


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "random"
    path.mkdir()
    pairs = list(toy.sentences(40, seed=1))
    vocabularies = {side: Words.build([getattr(pair, side) for pair in pairs]) for side in ("source", "target")}
    config = ModelConfig(
        len(vocabularies["source"]),
        len(vocabularies["target"]),
        width=16,
        hidden=16,
        heads=2,
        encoder_layers=1,
        decoder_layers=1,
        share="none",
        capsules=CapsuleConfig(width=8, hidden=16),
    )
    torch.manual_seed(1)
    save_file(unique_tensors(Transformer(config)), path / folder.WEIGHTS)
    folder.create(
        path,
        name="random",
        model=config,
        vocabularies=dict(vocabularies),
        files=[folder.WEIGHTS],
        policy="wait-k:k=3",
        about={"description": "random weights over the toy language", "toy": True},
    )
    return path


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    return [pair.source for pair in toy.sentences(3, seed=1)]


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory, sentences: list[str]) -> Path:
    path = tmp_path_factory.mktemp("text") / "source.txt"
    path.write_text("".join(f"{line}\n" for line in sentences), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def references(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "reference.txt"
    path.write_text("".join(f"{pair.target}\n" for pair in toy.sentences(3, seed=1)), encoding="utf-8")
    return path

"""The constraint heads, asked after training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from bethink import folder
from bethink.errors import ModelError
from bethink.model.constraints import HEADS, ConstraintProbe, Constraints
from bethink.model.weights import unique_tensors
from bethink.text import EOS, PAD, Words
from tests.models import BUILDS, random_model


@pytest.mark.parametrize("build", ["post", "separate"])
def test_the_likeliest_words_are_those_of_the_heads(build: str, tmp_path: Path) -> None:
    config = BUILDS[build]
    model, heads = random_model(config), Constraints(config)
    save_file(unique_tensors(model), tmp_path / folder.WEIGHTS)
    save_file(unique_tensors(heads), tmp_path / HEADS)
    words = {
        side: Words([f"w{n}" for n in range(3, getattr(config, f"{side}_vocabulary"))]) for side in ("source", "target")
    }
    about = {"name": "m", "model": config, "vocabularies": dict(words), "policy": "wait-k:k=3", "about": {}}
    made = folder.create(tmp_path, files=[folder.WEIGHTS, HEADS], **about)  # type: ignore[arg-type]
    source, target, path = [5, 6, 7, EOS], [EOS, 8, 9], [1, 2, 4]
    written, read = ConstraintProbe.load(made).likeliest(source, target, path, 3, 4)
    with torch.inference_mode():
        routing = model(torch.tensor([source]), torch.tensor([target]), torch.tensor([path])).routing
        logits = heads.target_words(routing)[0] @ model.target_embedding.weight.T
    assert written.shape == (3, 3)
    assert read.shape == (3, 4)
    assert PAD not in written
    assert (written[:, 0] == logits[:, 1:].argmax(-1).numpy() + 1).all()


def test_a_model_without_heads_says_where_they_are(tmp_path: Path) -> None:
    config = BUILDS["post"]
    save_file(unique_tensors(random_model(config)), tmp_path / folder.WEIGHTS)
    words = Words([f"w{n}" for n in range(17)])
    made = folder.create(
        tmp_path,
        name="m",
        model=config,
        vocabularies={"source": words, "target": words},
        files=[folder.WEIGHTS],
        policy="wait-k:k=3",
        about={},
    )
    with pytest.raises(
        ModelError, match="no constraint heads, which only training leaves; give the folder of a PED run"
    ):
        ConstraintProbe.load(made)

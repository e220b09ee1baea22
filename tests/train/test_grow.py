"""A model that begins with what a smaller one, or one with another vocabulary, has learned."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file

from bethink.cli import main
from bethink.errors import TrainingError
from bethink.folder import CONFIG, WEIGHTS, create
from bethink.model.config import ModelConfig
from bethink.model.transformer import Transformer
from bethink.model.weights import load_tensors, unique_tensors
from bethink.text import load_vocabulary
from bethink.train.data import Corpus, manifest
from bethink.train.grow import grown
from bethink.train.loop import train
from bethink.train.paths import wait_k
from bethink.train.prepare import prepare
from bethink.train.recipe import Recipe
from bethink.train.units import count_tokens
from tests.models import random_model

PRE = ("model.norm=pre", "text.kind=sentencepiece", "text.size=60", "text.joint=false", "model.share=target")


@pytest.fixture(scope="module")
def old_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _prepared(tmp_path_factory.mktemp("old") / "data")


@pytest.fixture
def origin(old_data: Path, small: Callable[..., Recipe], tmp_path: Path) -> Path:
    """A model without training, whose weights are all large enough to matter."""
    about, recipe = manifest(old_data), small(*PRE, "system=aligned")
    config = recipe.sized(about["source"]["size"], about["target"]["size"])
    path = tmp_path / "origin"
    path.mkdir()
    save_file(unique_tensors(random_model(config, seed=3)), path / WEIGHTS)
    words = {
        side: load_vocabulary(old_data / about[side]["file"], about[side]["kind"]) for side in ("source", "target")
    }
    create(path, name="origin", model=config, vocabularies=words, files=[WEIGHTS], policy="offline", about={})
    return path


def _prepared(folder: Path, *settings: str) -> Path:
    recipe = Recipe.load("tiny", ["data.toy=200", *PRE, *settings])
    return prepare(recipe, folder.parent, folder, Console(file=io.StringIO()))


def _model(config: ModelConfig, values: dict[str, torch.Tensor]) -> Transformer:
    model = Transformer(config).eval()
    state = model.state_dict()
    for name, tensor in values.items():
        if name.removeprefix("model.") in state:
            state[name.removeprefix("model.")].copy_(tensor)
    return model


def test_a_causal_encoder_may_become_bidirectional(origin: Path, old_data: Path, small: Callable[..., Recipe]) -> None:
    recipe = small(*PRE, "system=offline-bidirectional")
    sizes = [manifest(old_data)[side]["size"] for side in ("source", "target")]
    grown_up = _model(recipe.sized(*sizes), grown(recipe, origin, old_data)).state_dict()
    assert not recipe.model.causal
    for name, tensor in load_tensors(origin / WEIGHTS).items():
        if name.startswith(("encoder.", "decoder.")):
            assert torch.equal(grown_up[name], tensor)


def test_more_layers_change_nothing_at_first(origin: Path, old_data: Path, small: Callable[..., Recipe]) -> None:
    recipe = small(*PRE, "system=aligned", "model.encoder_layers=3", "model.decoder_layers=2")
    values, corpus = grown(recipe, origin, old_data), Corpus(old_data, "dev")
    sizes = [manifest(old_data)[side]["size"] for side in ("source", "target")]
    larger = _model(recipe.sized(*sizes), values)
    smaller = _model(small(*PRE, "system=aligned").sized(*sizes), load_tensors(origin / WEIGHTS))
    source, target = (side.padded(range(8)) for side in (corpus.source, corpus.target))  # type: ignore[arg-type]
    path = wait_k(3, count_tokens(source, target))
    with torch.no_grad():
        torch.testing.assert_close(
            larger.along(source, target, path).output, smaller.along(source, target, path).output
        )
    assert any(tensor.eq(0).all() for tensor in larger.state_dict().values())  # so there was something to add


def test_tokens_that_both_vocabularies_have_keep_their_embeddings(
    origin: Path, old_data: Path, small: Callable[..., Recipe], tmp_path: Path
) -> None:
    data = _prepared(tmp_path / "data", "text.kind=word-final", "text.size=340")
    values, learned = grown(small(*PRE, "system=aligned"), origin, data), load_tensors(origin / WEIGHTS)
    before, after = (
        load_vocabulary(place / "source.spm", kind)
        for place, kind in ((old_data, "sentencepiece"), (data, "word-final"))
    )
    words, same = set((data / "dev.source.txt").read_text("utf-8").split()), 0
    for word in words:
        ids, others = after.encode(word), before.encode(word)
        alone = not any(other.endswith(word) for other in words - {word})  # else it shares its token with other words
        if len(ids) == len(others) == 1 and alone:
            new, old = values["model.source_embedding.weight"][ids[0]], learned["source_embedding.weight"][others[0]]
            torch.testing.assert_close(new, old)
            same += 1
    assert same > 3
    assert values["model.source_embedding.weight"].isfinite().all()


def test_training_goes_on_from_it(origin: Path, small: Callable[..., Recipe], tmp_path: Path) -> None:
    data = _prepared(tmp_path / "data", "text.kind=word-final", "text.size=340")
    recipe = small(*PRE, "model.decoder_layers=2")
    assert train(recipe, data, tmp_path / "run", origin, "cpu", grow=True).is_dir()
    with pytest.raises(TrainingError, match="is not the vocabulary of this data; .* or train with --grow"):
        train(recipe, data, tmp_path / "other", origin, "cpu")


@pytest.mark.parametrize(
    ("change", "told"),
    [("model.width=32", "has model.width=16, but this recipe 32"), ("model.hidden=32", "has model.hidden=16")],
)
def test_what_cannot_grow_is_refused(
    origin: Path, old_data: Path, small: Callable[..., Recipe], change: str, told: str
) -> None:
    with pytest.raises(TrainingError, match=told):
        grown(small(*PRE, change), origin, old_data)


def test_layers_cannot_be_taken_away(old_data: Path, small: Callable[..., Recipe], tmp_path: Path) -> None:
    deep = train(small(*PRE, "model.encoder_layers=2"), old_data, tmp_path / "deep", None, "cpu")
    with pytest.raises(TrainingError, match="has 2 layers, and cannot become one with 1"):
        grown(small(*PRE), deep, old_data)


def test_a_converted_model_is_refused(origin: Path, old_data: Path, small: Callable[..., Recipe]) -> None:
    """Its first tokens are ids of its own vocabulary."""
    config = json.loads((origin / CONFIG).read_text("utf-8"))
    config["model"] |= {"begin": [1, 7]}
    (origin / CONFIG).write_text(json.dumps(config), "utf-8")
    with pytest.raises(TrainingError, match="was converted from another tool's model, and cannot grow"):
        grown(small(*PRE, "system=aligned"), origin, old_data)


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "tiny", "--grow"]) == 2
    assert "--grow is for --from" in capsys.readouterr().err

"""A converted model is trained further: its encoder becomes causal, and at low latency it is better than the offline model was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sacrebleu
import torch

from bethink import Translator
from bethink.cli import main
from bethink.convert import convert
from bethink.errors import TrainingError, UsageError
from bethink.export import network
from bethink.export.precision import PRECISIONS
from bethink.export.restore import load_any
from bethink.folder import DECODER, Folder, sha256
from bethink.text import leaving
from bethink.train.checkpoint import architecture
from bethink.train.loop import train
from bethink.train.recipe import Recipe
from tests.convert.hub import sentences

RECIPE = """
about = "a toy model, trained further"

[data]
source = "xx"
target = "yy"
train = ["train"]
dev = ["dev"]

[train]
updates = 600
tokens = 1000
rate = 4e-3
warmup = 30
schedule = "linear"
log = 100
validate = 600
save = 600
average = 1
"""
FEW = ("train.updates=3", "train.save=3", "train.validate=3", "train.log=3")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus and a recipe of one's own."""
    path = tmp_path_factory.mktemp("mine")
    (path / "mine.toml").write_text(RECIPE)
    for part, count, seed in (("train", 8000, 1), ("dev", 100, 2)):
        pairs = sentences(count, seed)
        (path / f"{part}.xx").write_text("".join(f"{pair.source}\n" for pair in pairs))
        (path / f"{part}.yy").write_text("".join(f"{pair.target}\n" for pair in pairs))
    return path


@pytest.fixture(scope="module")
def data(place: Path, able: Path) -> Path:
    out = place / "data"
    assert (
        main(["prepare", str(place / "mine.toml"), "--data", str(place), "--out", str(out), "--like", str(able)]) == 0
    )
    return out


def bleu(model: Path, policy: str) -> float:
    pairs = sentences(250, seed=77)
    found = Translator(model, threads=1).translate_many([pair.source for pair in pairs], policy)
    return float(
        sacrebleu.corpus_bleu([one.text for one in found], [[pair.target for pair in pairs]], force=True).score
    )


def test_fine_tuned_by_four_commands_it_is_better_at_low_latency(place: Path, able: Path, data: Path) -> None:
    run, made = place / "run", place / "made"
    asked = ["train", str(place / "mine.toml"), "--data", str(data), "--run", str(run), "--device", "cpu"]
    assert main([*asked, "--from", str(able)]) == 0
    assert main(asked) == 0, "the same run, finished, without the folder of its first weights"
    assert main(["export", str(run), "--to", str(made), "--precision", "int8"]) == 0
    old, new = Folder.open(able), Folder.open(made)
    assert (old.model.causal, new.model.causal) == (False, True)
    assert new.model.to_dict() == old.model.to_dict() | {"causal": True}
    assert new.about["origin"]["licence"] == "apache-2.0"
    assert bleu(able, "offline") > 85, "the model knows the language"
    gains = [bleu(made, policy) - bleu(able, policy) for policy in ("wait-k:1", "wait-k:2", "wait-k:3", "wait-k:4")]
    assert min(gains) > 0, gains  # little, and in part from more training: docs/your-language.md has a control
    assert sum(gains) / len(gains) > 0.7, gains


def test_the_first_weights_are_those_of_the_model(place: Path, able: Path, data: Path, tmp_path: Path) -> None:
    """Trained at a rate of 0, a bidirectional model stays what it was: nothing of it is lost on the way."""
    recipe = Recipe.load(
        place / "mine.toml", [*FEW, "system=offline-bidirectional", "train.rate=0"], architecture(able)
    )
    model = train(recipe, data, tmp_path / "run", able, "cpu")
    assert not Folder.open(model).model.causal
    old, new = (load_any(Folder.open(path)).state_dict() for path in (able, model))
    assert old.keys() == new.keys()
    for name, tensor in old.items():
        torch.testing.assert_close(new[name], tensor, rtol=0, atol=1e-6)  # the rate begins at 1e-7
    lines = [pair.source for pair in sentences(20, seed=5)]
    kept, its = (
        [one.text for one in Translator(path, threads=1).translate_many(lines, "wait-k:3")] for path in (able, model)
    )
    assert sum(one == other for one, other in zip(kept, its, strict=True)) >= 15  # int8 beside float32


def test_the_weights_are_kept_if_asked_for(marian: Path, tmp_path: Path) -> None:
    small, whole = convert(marian, tmp_path / "small", target="fra"), tmp_path / "whole"
    assert main(["convert", str(marian), "--to", str(whole), "--target", "fra", "--weights"]) == 0
    exact = convert(marian, tmp_path / "exact", target="fra", precision="float32")
    states = [load_any(Folder.open(path)).state_dict() for path in (whole, exact, small)]
    for name, tensor in states[0].items():
        torch.testing.assert_close(states[1][name], tensor)
        finite = tensor.isfinite()
        assert torch.equal(finite, states[2][name].isfinite())
        assert (states[2][name] - tensor)[finite].abs().max() <= tensor[finite].abs().max() / 100


def test_graphs_made_before_attention_was_shown_can_be_trained_on(marian: Path, tmp_path: Path) -> None:
    made = convert(marian, tmp_path / "made", target="fra", precision="float32")
    folder = Folder.open(made)
    model = load_any(folder)
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    parts = folder.model, weights | {"positions": model.positions.numpy()}, PRECISIONS["float32"]
    graph = network.decoder(*parts, leaving(folder.target), attention=False)
    (made / DECODER).write_bytes(graph.SerializeToString())
    config = folder.config | {"files": folder.config["files"] | {DECODER: sha256(made / DECODER)}}
    (made / "config.json").write_text(json.dumps(config))
    assert Translator(made, threads=1).translate("ne te", "wait-k:2"), "they run as before"
    for name, tensor in load_any(Folder.open(made)).state_dict().items():
        torch.testing.assert_close(tensor, model.state_dict()[name])


def test_m2m_is_trained_further_too(place: Path, m2m: Path, tmp_path: Path) -> None:
    """Two ids before the translation, pre-norm."""
    model = convert(m2m, tmp_path / "model", source="af", target="am", weights=True)
    recipe, data = place / "mine.toml", tmp_path / "data"
    asked = [str(recipe), "data.longest=20", *FEW]
    assert main(["prepare", *asked, "--data", str(place), "--out", str(data), "--like", str(model)]) == 0
    ends = ["--data", str(data), "--run", str(tmp_path / "run"), "--from", str(model), "--device", "cpu"]
    assert main(["train", *asked, *ends]) == 0
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert all(record["full"] < 6 for record in log if record["kind"] == "dev"), "it begins with what the model knows"
    assert Folder.open(tmp_path / "run" / "model").model.begin == Folder.open(model).model.begin


def test_a_recipe_that_contradicts_the_model_is_refused(
    place: Path, able: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    asked = ["train", str(place / "mine.toml"), "--data", str(data), "--run", str(run), "--from", str(able)]
    assert main([*asked, "model.width=512"]) == 2
    assert "model.width is 512, but the converted model to train further has 64" in capsys.readouterr().err
    assert not run.exists()
    Recipe.load(place / "mine.toml", ["model.width=64", "model.dropout=0.2", "text.joint=false"], architecture(able))
    with pytest.raises(UsageError, match=r"model\.begin cannot be set by itself"):
        Recipe.load(place / "mine.toml", ["model.begin=[0]"], architecture(able))
    with pytest.raises(TrainingError, match="load the recipe with its architecture"):
        train(Recipe.load(place / "mine.toml"), data, run, able, "cpu")
    assert not run.exists()


def test_the_capsules_of_a_recipe_are_added(place: Path, able: Path) -> None:
    recipe = Recipe.load(place / "mine.toml", ["system=ped"], architecture(able))
    assert recipe.model.capsules is not None
    assert (recipe.model.capsules.width, recipe.model.causal, recipe.model.activation) == (32, True, "swish")

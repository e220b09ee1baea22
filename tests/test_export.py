"""An exported folder is complete, checked, and translates as the weights do, without PyTorch."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.torch import save_file

from bethink import folder as folders
from bethink.backend.onnx import DECODER, ENCODER, OnnxBackend
from bethink.errors import MissingExtra, ModelError, UsageError
from bethink.export import CARD, PRECISIONS, export, write_like
from bethink.export import precision as precisions
from bethink.export.restore import load_any
from bethink.folder import CONFIG, GRAPHS, WEIGHTS, Folder
from bethink.model.config import ModelConfig
from bethink.model.weights import load_model, unique_tensors
from bethink.text import Words
from bethink.translator import Translator
from tests.models import BUILDS, SMALL, random_model

TEXT = "b a c d e f g h . a b c d b h g ! f e d"
LIGHT = """
import sys
from bethink.translator import Translator
print(Translator(sys.argv[1]).translate(sys.argv[2]))
assert "onnxruntime" in sys.modules
heavy = {"torch", "onnx", "safetensors", "matplotlib", "sacrebleu"} & set(sys.modules)
assert not heavy, heavy
"""


def trained(path: Path, config: ModelConfig = BUILDS["post"], policy: str = "pe:k=2,rho=0.05,r=2") -> Path:
    """A model folder as training leaves it."""
    path.mkdir(parents=True)
    save_file(unique_tensors(random_model(config, seed=7)), path / WEIGHTS)
    words = {size: Words([chr(ord("a") + n) for n in range(size - 5)] + [".", "!"]) for size in (20, 24)}
    folders.create(
        path,
        name="toy",
        model=config,
        vocabularies={"source": words[config.source_vocabulary], "target": words[config.target_vocabulary]},
        files=[WEIGHTS],
        policy=policy,
        about={"data": "made up"},
    )
    return path


@pytest.mark.parametrize("build", ["post", "deep", "plain"])
def test_an_export_translates_like_the_weights(build: str, tmp_path: Path) -> None:
    policy = "wait-k:2" if build == "plain" else "pe:k=2,rho=0.05,r=2"
    source = trained(tmp_path / "source", BUILDS[build], policy)
    made = export(source, tmp_path / "made")
    light, heavy = Translator(made, backend="onnx"), Translator(source, backend="torch", device="cpu")
    assert isinstance(light.backend, OnnxBackend)
    assert light.policy == heavy.policy
    assert light.translate(TEXT) == heavy.translate(TEXT) != ""


def test_every_precision_has_its_arithmetic() -> None:
    assert tuple(precisions.PRECISIONS) == PRECISIONS


@pytest.mark.parametrize("width", [7, 64])
def test_products_of_neighbours_fit_into_sixteen_bits(width: int) -> None:
    """Where they are added in 16 bits and cut, two products of neighbours must fit whatever the row, or machines would disagree."""
    weight = np.random.default_rng(0).standard_normal((50, width)).astype(np.float32)
    weight[0], weight[1], weight[2] = 1.0, 0.0, [(-1) ** n for n in range(width)]
    whole, scales = precisions.quantised(weight)
    pairs = np.append(whole.astype(int), np.zeros((50, width % 2), dtype=int), axis=1).reshape(50, -1, 2)
    assert 255 * np.maximum(pairs, 0).sum(axis=2).max() <= 2**15 - 1
    assert 255 * np.minimum(pairs, 0).sum(axis=2).min() >= -(2**15)
    np.testing.assert_allclose(whole * scales[:, None], weight, atol=scales.max() / 2 + 1e-6)
    assert np.abs(whole).max(axis=1)[2] == 127  # neighbours that differ in sign cost nothing


@pytest.mark.parametrize("build", ["post", "deep", "plain"])
def test_bytes_translate(build: str, tmp_path: Path) -> None:
    policy = "wait-k:2" if build == "plain" else "pe:k=2,rho=0.05,r=2"
    source = trained(tmp_path / "source", BUILDS[build], policy)
    made = export(source, tmp_path / "made", precision="int8")
    assert Folder.open(made).about["precision"] == "int8"
    assert "- precision: int8\n" in (made / CARD).read_text(encoding="utf-8")
    one = Translator(made)
    lines = TEXT.replace(".", "!").split("!")
    alone = [one.translate_many([line]) for line in lines]
    assert list(one.translate_many(lines)) == [next(each) for each in alone]
    assert one.translate(TEXT)


def test_bytes_take_a_quarter_of_the_room(tmp_path: Path) -> None:
    config = ModelConfig(20, 20, width=256, hidden=1024, heads=4, encoder_layers=6, decoder_layers=6)
    source = trained(tmp_path / "source", config, "wait-k:2")
    sizes = []
    for precision in PRECISIONS:
        made = export(source, tmp_path / precision, precision=precision)
        sizes.append(sum((made / file).stat().st_size for file in GRAPHS))
    assert sizes[1] < 0.3 * sizes[0]


def test_the_words_of_a_model_are_stored_once(tmp_path: Path) -> None:
    """Embeddings and the output layer share their bytes."""
    sizes = []
    for count in (20, 24):
        config = ModelConfig(count, count, **SMALL)
        made = export(trained(tmp_path / f"{count}", config, "wait-k:2"), tmp_path / f"made{count}", precision="int8")
        sizes.append((made / DECODER).stat().st_size)
    assert sizes[1] - sizes[0] < 4 * 2 * config.width


def test_translating_needs_no_torch(tmp_path: Path) -> None:
    source = trained(tmp_path / "source")
    made = export(source, tmp_path / "made")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, str(made), TEXT],
        capture_output=True,
        encoding="utf-8",
        env=environment,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == Translator(source, device="cpu").translate(TEXT) + "\n"


def test_the_folder_stands_alone(tmp_path: Path) -> None:
    made = export(trained(tmp_path / "source"), tmp_path / "new" / "made")
    assert {path.name for path in made.iterdir()} == {CONFIG, CARD, ENCODER, DECODER, "source.txt", "target.txt"}
    assert [path.name for path in made.parent.iterdir()] == ["made"]
    folder = Folder.open(made)
    assert (folder.name, folder.policy) == ("toy", "pe:k=2,rho=0.05,r=2")
    assert folder.about == {"data": "made up", "precision": "float32"}
    assert folder.config["files"].keys() == {ENCODER, DECODER, "source.txt", "target.txt"}
    card = (made / CARD).read_text(encoding="utf-8")
    assert card.startswith("# toy\n")
    assert "- data: made up\n" in card
    assert "2 causal encoder layers" in card


def test_what_is_given_replaces_what_the_source_says(tmp_path: Path) -> None:
    source = trained(tmp_path / "source")
    made = export(source, tmp_path / "made", policy="wait-k:4", name="other", about={"bleu": 3}, weights=True)
    folder = Folder.open(made)
    assert (folder.name, folder.policy) == ("other", "wait-k:k=4,rate=1.0")
    assert folder.about == {"data": "made up", "bleu": 3, "precision": "float32"}
    assert (made / WEIGHTS).read_bytes() == (source / WEIGHTS).read_bytes()
    again = export(made, tmp_path / "again")
    assert (again / DECODER).read_bytes() == (made / DECODER).read_bytes()


def test_a_training_run_is_exported_by_its_model(tmp_path: Path) -> None:
    trained(tmp_path / "run" / "model")
    assert Folder.open(export(tmp_path / "run", tmp_path / "made")).name == "toy"


def test_shared_embeddings_are_stored_once(tmp_path: Path) -> None:
    sizes = []
    for share in ("all", "none"):
        config = ModelConfig(20, 20, **{**SMALL, "width": 256}, share=share)
        made = export(trained(tmp_path / share, config, "wait-k:2"), tmp_path / f"made-{share}")
        sizes.append((made / DECODER).stat().st_size)
    assert sizes[1] - sizes[0] == pytest.approx(20 * 256 * 4, abs=200)


def test_a_bidirectional_model_can_be_exported(tmp_path: Path) -> None:
    source = trained(tmp_path / "source", ModelConfig(20, 20, **SMALL, causal=False), "offline")
    made = export(source, tmp_path / "made")
    assert Translator(made).translate(TEXT) == Translator(source, device="cpu").translate(TEXT)
    assert "bidirectional" in (made / CARD).read_text(encoding="utf-8")


def test_a_damaged_graph_is_found_by_its_hash(tmp_path: Path) -> None:
    made = export(trained(tmp_path / "source"), tmp_path / "made")
    data = (made / DECODER).read_bytes()
    (made / DECODER).write_bytes(data[:-100])
    with pytest.raises(ModelError, match="has changed since the model was made"):
        Translator(made)


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"precision": "int3"}, UsageError, "no precision named 'int3'"),
        ({"policy": "waitk"}, UsageError, "no policy named 'waitk'"),
        ({"policy": "pe:k=2"}, ModelError, "no capsules"),
    ],
)
def test_what_cannot_be_leaves_nothing(
    settings: dict[str, str], error: type[Exception], says: str, tmp_path: Path
) -> None:
    source = trained(tmp_path / "source", BUILDS["plain"], "wait-k:2")
    with pytest.raises(error, match=says):
        export(source, tmp_path / "made", **settings)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    source = trained(tmp_path / "source")
    before = sorted((path.name, path.read_bytes()) for path in source.iterdir())
    with pytest.raises(UsageError, match="already exists; remove it or export to another folder"):
        export(source, source)
    assert sorted((path.name, path.read_bytes()) for path in source.iterdir()) == before


def test_only_weights_can_be_exported(tmp_path: Path) -> None:
    made = export(trained(tmp_path / "source"), tmp_path / "made")
    with pytest.raises(ModelError, match=f"has no {WEIGHTS}; export from"):
        export(made, tmp_path / "again")
    with pytest.raises(ModelError, match="not a model folder"):
        export(tmp_path, tmp_path / "again")


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = trained(tmp_path / "source")
    monkeypatch.setitem(sys.modules, "onnx", None)
    for name in ("graph", "network"):
        monkeypatch.delitem(sys.modules, f"bethink.export.{name}", raising=False)
        monkeypatch.delattr(f"bethink.export.{name}", raising=False)
    with pytest.raises(MissingExtra, match="needs the 'train' extra"):
        export(source, tmp_path / "made")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_weights_can_be_read_back_from_the_graphs(build: str, precision: str, tmp_path: Path) -> None:
    policy = "pe:k=2" if BUILDS[build].capsules else "wait-k:2"
    source = trained(tmp_path / "source", BUILDS[build], policy)
    found = unique_tensors(load_any(Folder.open(export(source, tmp_path / "made", precision=precision))))
    for name, tensor in unique_tensors(load_model(Folder.open(source))).items():
        largest = tensor.abs().amax(dim=-1, keepdim=True)
        allowed = 1e-6 if precision == "float32" or tensor.dim() == 1 else 1.01 / 127
        assert bool(((found[name] - tensor).abs() <= allowed * largest + 1e-7).all()), name


def test_graphs_of_another_make_are_refused(tmp_path: Path) -> None:
    made = export(trained(tmp_path / "source"), tmp_path / "made")
    graph = onnx.load(made / DECODER)
    graph.graph.node.append(onnx.helper.make_node("Identity", ["candidate"], ["again"]))
    config = json.loads((made / CONFIG).read_text())
    onnx.save(graph, made / DECODER)
    config["files"][DECODER] = folders.sha256(made / DECODER)
    (made / CONFIG).write_text(json.dumps(config))
    with pytest.raises(ModelError, match="another version"):
        load_any(Folder.open(made))


def test_bytes_made_of_bytes_are_the_same_bytes() -> None:
    chance = np.random.default_rng(1)
    whole, scales = precisions.quantised(chance.normal(size=(2000, 64)).astype(np.float32))
    again, same = precisions.quantised(whole.astype(np.float32) * scales[:, None])
    assert np.array_equal(whole, again)
    assert np.array_equal(scales, same), "to the last bit"


def test_no_weight_changes_its_sign() -> None:
    odd = np.array([[1, 0, 1 / 128, 0], [-1, 0, 0, 1 / 128]], dtype=np.float32)
    whole, scales = precisions.quantised(odd)
    np.testing.assert_allclose(whole * scales[:, None], odd, atol=0.01)


def test_an_unknown_precision_becomes_the_plain_one(tmp_path: Path) -> None:
    source = Folder.open(trained(tmp_path / "source"))
    like = dataclasses.replace(source, config={**source.config, "about": {"precision": "bfloat16"}})
    assert (
        Folder.open(write_like(load_model(source), like, tmp_path / "made", weights=True)).about["precision"]
        == "float32"
    )

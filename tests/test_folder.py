"""A model folder is checked before it is used, and says in one sentence what is wrong with it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bethink import folder
from bethink.errors import ModelError
from bethink.folder import CONFIG, Folder
from bethink.model.config import CapsuleConfig, ModelConfig
from bethink.text import Words

MODEL = ModelConfig(6, 6, width=8, heads=2, capsules=CapsuleConfig(width=4))


@pytest.fixture
def made(tmp_path: Path) -> Path:
    path = tmp_path / "mine"
    path.mkdir()
    (path / "weights.bin").write_bytes(b"weights")
    words = Words(["a", "b", "c"])
    folder.create(
        path,
        name="mine",
        model=MODEL,
        vocabularies={"source": words, "target": words},
        files=["weights.bin"],
        policy="wait-k:k=3,rate=1.0",
        about={"data": "none"},
    )
    return path


def test_what_is_made_is_read_back(made: Path) -> None:
    found = Folder.open(made)
    assert (found.name, found.policy, found.model) == ("mine", "wait-k:k=3,rate=1.0", MODEL)
    assert found.source.encode("b") == (4,)
    assert found.about == {"data": "none"}
    assert found.has("weights.bin")


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads((path / CONFIG).read_text())
    edit(config)
    (path / CONFIG).write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda c: c.update(format=2), "format 2"),
        (lambda c: c.pop("policy"), "lacks policy"),
        (lambda c: c["model"].update(width="x"), "does not describe a model"),
        (lambda c: c["model"].update(wdith=3), "wdith"),
        (lambda c: c.update(model=3), "does not describe a model"),
        (lambda c: c.update(files=3), "does not describe a model"),
        (lambda c: c.update(policy=5), "does not describe a model"),
        (lambda c: c.update(policy="wait"), "no policy named 'wait'"),
        (lambda c: c["model"].update(heads=0), "does not describe a model"),
        (lambda c: c.update(source="x"), "does not describe a model"),
        (lambda c: c["source"].update(file="../../secret"), "secret"),
        (lambda c: c.update(about=5), "'about' is 5"),
        (lambda c: c.update(about=["x"]), r"'about' is \['x'\]"),
        (lambda c: c["source"].update(kind=[]), r"kind of 'source' is \[\]"),
        (lambda c: c["target"].pop("file"), "file of 'target' is None"),
        (lambda c: c["model"].update(encoder_layers="x"), "model.encoder_layers is 'x'"),
        (lambda c: c["model"].update(dropout=float("nan")), "model.dropout is nan"),
        (lambda c: c["model"].update(causal=0), "model.causal is 0"),
        (lambda c: c["model"].update(norm=[]), "no model.norm named"),
        (lambda c: c["model"].update(capsules=5), "model.capsules is 5, but must be a table"),
        (lambda c: c["model"].pop("source_vocabulary"), "lacks source_vocabulary"),
        (lambda c: c["model"]["capsules"].update(width="x"), "model.capsules.width is 'x'"),
        (lambda c: c["model"]["capsules"].update(scale=0), "model.capsules.scale is 0"),
        (lambda c: c["model"]["capsules"].update(with_=1), r"no setting in \[model.capsules\] named 'with_'"),
        (lambda c: c["files"].update({"decoder.onnx": "0"}), "only decoder.onnx"),
        (lambda c: c["files"].update({"encoder.onnx": "0"}), "only encoder.onnx"),
        (lambda c: c["files"].update({"../other": "0"}), "not a plain file name"),
        (lambda c: c["files"].update({"gone.bin": "0"}), "has no file gone.bin"),
        (lambda c: c["files"].update({"weights.bin": "0"}), "has changed since the model was made"),
    ],
)
def test_a_wrong_config_is_one_sentence(made: Path, edit: Callable[[dict[str, Any]], object], says: str) -> None:
    change(made, edit)
    with pytest.raises(ModelError, match=says) as caught:
        Folder.open(made)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no folder .*nope"):
        Folder.open(tmp_path / "nope")
    with pytest.raises(ModelError, match=r"is not a model folder: it has no config\.json"):
        Folder.open(tmp_path)


def test_a_fingerprint_tells_models_of_one_name_apart(made: Path) -> None:
    first = Folder.open(made).fingerprint
    change(made, lambda c: c.update(name="other", about={}))
    other = Folder.open(made)
    assert other.fingerprint == first
    assert dataclasses.replace(other, config={"files": {"weights.bin": "0"}}).fingerprint != first


def test_vocabularies_that_were_swapped_are_told_apart(tmp_path: Path) -> None:
    source, target = Words(["a", "b", "c"]), Words(["a", "b", "c", "d"])
    model = ModelConfig(len(source), len(target), width=8, heads=2, share="none")
    words = {"source": source, "target": target}
    folder.create(tmp_path, name="two", model=model, vocabularies=words, files=[], policy="offline", about={})
    assert (len(Folder.open(tmp_path).source), len(Folder.open(tmp_path).target)) == (6, 7)
    change(tmp_path, lambda c: c.update(source=c["target"], target=c["source"]))
    swapped = Folder.open(tmp_path)
    with pytest.raises(ModelError, match=r"target\.txt has 7 entries, but .* a source vocabulary of 6"):
        _ = swapped.source
    with pytest.raises(ModelError, match=r"source\.txt has 6 entries, but .* a target vocabulary of 7"):
        _ = swapped.target


def test_a_truncated_file_never_loads(made: Path) -> None:
    (made / "weights.bin").write_bytes(b"weight")
    with pytest.raises(ModelError, match="weights.bin has changed"):
        Folder.open(made)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\xfe"])
def test_a_config_that_is_none_is_one_sentence(made: Path, content: bytes) -> None:
    (made / CONFIG).write_bytes(content)
    with pytest.raises(ModelError, match="config.json"):
        Folder.open(made)


def test_models_are_found_by_name(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BETHINK_MODELS", str(made.parent))
    assert folder.find("mine") == made
    assert folder.find(made) == made
    with pytest.raises(ModelError, match="known are: .*mine"):
        folder.find("other")
    with pytest.raises(ModelError, match="no model"):
        folder.find("../" + made.parent.name + "/nothing")


def test_the_bundled_model_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Folder.open(folder.find("toy")).about["toy"] is True


def test_a_run_stands_for_its_model(made: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    made.rename(run / "model")
    assert folder.find(run) == run / "model"

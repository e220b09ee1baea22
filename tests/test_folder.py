"""A model folder is checked before it is used, and says in one sentence what is wrong with it."""

from __future__ import annotations

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
        (lambda c: c["files"].update({"../other": "0"}), "not a plain file name"),
        (lambda c: c["files"].update({"gone.bin": "0"}), "lacks its file gone.bin"),
        (lambda c: c["files"].update({"weights.bin": "0"}), "not the file the model was made with"),
    ],
)
def test_a_wrong_config_is_one_sentence(made: Path, edit: Callable[[dict[str, Any]], object], says: str) -> None:
    change(made, edit)
    with pytest.raises(ModelError, match=says) as caught:
        Folder.open(made)
    assert "\n" not in str(caught.value)


def test_a_truncated_file_never_loads(made: Path) -> None:
    (made / "weights.bin").write_bytes(b"weight")
    with pytest.raises(ModelError, match="weights.bin is not the file"):
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

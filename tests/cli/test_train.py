"""prepare → train → average → export → translate: a corpus becomes a model folder by commands alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from bethink.cli import main
from bethink.translator import Translator

RECIPE = """
about = "a few sentences of the toy language"
system = "ped"
[data]
toy = 200
[text]
kind = "words"
joint = false
[model]
width = 16
hidden = 16
heads = 2
encoder_layers = 1
decoder_layers = 1
share = "target"
[model.capsules]
width = 8
hidden = 16
[train]
updates = 3
tokens = 400
warmup = 1
log = 1
validate = 3
save = 1
keep = 3
average = 2
"""


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(list(argv)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_from_corpus_to_translation(tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe, data, folder, model = (str(tmp_path / name) for name in ("small.toml", "prepared", "run", "exported"))
    Path(recipe).write_text(RECIPE)
    assert run(capsys, "prepare", recipe, "--out", data).splitlines()[-1] == data
    trained = run(capsys, "train", recipe, "--data", data, "--run", folder, "--device", "cpu", "train.updates=2")
    assert trained.strip() == f"{folder}/model"
    run(capsys, "train", recipe, "train.updates=3", "--data", data, "--run", folder, "--device", "cpu")
    checkpoints = sorted(path.name for path in Path(folder, "checkpoints").iterdir())
    assert checkpoints == ["step-00000001", "step-00000002", "step-00000003"]  # the second call went on
    assert run(capsys, "average", folder, "--last", "3").strip() == f"{folder}/model"
    out = run(
        capsys,
        "export",
        folder,
        "--to",
        model,
        "--name",
        "small",
        "--about",
        "two updates of nothing",
        "--policy",
        "wait-k:2",
    )
    assert out.strip() == model
    lines = run(capsys, "translate", "--model", model, "--watch", str(text)).splitlines()
    assert any("small (two updates of nothing)" in line for line in lines)
    assert any("wait-k:k=2" in line for line in lines)


def test_folders_have_names_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(RECIPE)
    assert run(capsys, "prepare", "small.toml").splitlines()[-1] == "data/small"
    train = ["train", "small.toml", "--device", "cpu", "train.updates=1"]
    assert run(capsys, *train, "system=multi-path").strip() == "runs/small-multi-path/model"
    assert run(capsys, *train, "--from", "runs/small-multi-path").strip() == "runs/small-ped/model"
    assert run(capsys, "export", "runs/small-ped", "--to", "models/mine").strip() == "models/mine"
    assert Translator("mine").name == "mine"


def test_a_share_of_nothing_is_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["average", str(tmp_path), "--share", "0.75"]) == 2
    assert "--share belongs to --with; add that" in capsys.readouterr().err


def test_a_wrong_change_is_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE)
    assert main(["prepare", str(recipe), "--out", str(tmp_path / "o"), "train.update=3"]) == 2
    assert "Did you mean 'updates'?" in capsys.readouterr().err
    assert main(["train", str(recipe), "--data", "d", "--run", "r", "faster"]) == 2
    assert "key=value" in capsys.readouterr().err

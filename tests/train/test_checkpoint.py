from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bethink.errors import TrainingError, UsageError
from bethink.files import new_folder
from bethink.folder import WEIGHTS, Folder
from bethink.train import checkpoint, loop
from bethink.train.data import manifest
from bethink.train.recipe import Recipe


def saved(run: Path, update: int) -> Path:
    tensors = {"model.weight": torch.full((2, 3), float(update))}
    return checkpoint.save(run, update, tensors, {"exp_avg/model.weight": torch.zeros(2, 3)}, {"data": "d"})


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    path = saved(tmp_path, 5)
    assert checkpoint.read_state(path) == {"update": 5, "data": "d"}
    assert torch.equal(checkpoint.read_tensors(path / WEIGHTS)["model.weight"], torch.full((2, 3), 5.0))


def test_checkpoints_come_oldest_first_and_half_written_ones_not_at_all(tmp_path: Path) -> None:
    for update in (100, 20, 3):
        saved(tmp_path, update)
    (tmp_path / "checkpoints" / ".step-00000200.part").mkdir()
    (tmp_path / "checkpoints" / "step-200").mkdir()
    assert [path.name for path in checkpoint.checkpoints(tmp_path)] == [
        "step-00000003",
        "step-00000020",
        "step-00000100",
    ]
    checkpoint.prune(tmp_path, keep=1)
    assert [path.name for path in checkpoint.checkpoints(tmp_path)] == ["step-00000100"]


def test_a_folder_that_fails_to_fill_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with new_folder(path) as temporary:
        (temporary / "a").write_text("old")
    with contextlib.suppress(ZeroDivisionError), new_folder(path) as temporary:
        (temporary / "a").write_text("new")
        raise ZeroDivisionError
    assert (path / "a").read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with new_folder(path) as temporary:
        (temporary / "a").write_text("new")
    assert (path / "a").read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path, 1) / WEIGHTS
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(TrainingError, match=r"weights\.safetensors cannot be read"):
        checkpoint.read_tensors(path)


def test_nothing_to_average(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no checkpoint to average"):
        checkpoint.average(tmp_path, 5)


def test_a_mean_of_a_run_and_what_it_began_with(tmp_path: Path, toy_data: Path, small: Callable[..., Recipe]) -> None:
    first = loop.train(small(), toy_data, tmp_path / "first")
    then = loop.train(small("train.seed=2"), toy_data, tmp_path / "then", init=tmp_path / "first")
    apart = [checkpoint.read_tensors(model / WEIGHTS) for model in (first, then)]
    both = checkpoint.average(tmp_path / "then", other=tmp_path / "first")
    halved = checkpoint.read_tensors(both / WEIGHTS)
    assert any(not torch.equal(apart[0][name], apart[1][name]) for name in halved)
    for name, tensor in halved.items():
        torch.testing.assert_close(tensor, (apart[0][name] + apart[1][name]) / 2)
    assert Folder.open(both).about["averaged with"]["from"] == "first"
    most = checkpoint.read_tensors(
        checkpoint.average(tmp_path / "then", other=tmp_path / "first", share=0.75) / WEIGHTS
    )
    for name, tensor in most.items():
        torch.testing.assert_close(tensor, apart[0][name] / 4 + apart[1][name] * 3 / 4)
    with pytest.raises(UsageError, match="between 0 and 1"):
        checkpoint.average(tmp_path / "then", other=tmp_path / "first", share=75)
    with pytest.raises(TrainingError, match="but this recipe makes it"):
        checkpoint.average(tmp_path / "then", other=Path(__file__).parents[2] / "models" / "de-en")


def test_weights_with_other_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="only one of them has b"):
        checkpoint.copy_into({"a": torch.zeros(1)}, {"a": torch.zeros(1), "b": torch.zeros(1)}, tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"update": "x"}'])
def test_a_damaged_state_is_named(tmp_path: Path, content: str) -> None:
    path = saved(tmp_path, 1)
    (path / checkpoint.STATE).write_text(content)
    with pytest.raises(TrainingError, match=r"state\.json is damaged"):
        checkpoint.read_state(path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"fingerprint": "f", "source": 3, "target": {}}'])
def test_damaged_facts_about_the_data_are_named(tmp_path: Path, content: str) -> None:
    (tmp_path / checkpoint.DATA).write_text(content)
    with pytest.raises(TrainingError, match=r"data\.json is damaged"):
        checkpoint.require_same_words(tmp_path, tmp_path)


@pytest.mark.parametrize("toy", [200, 0])
def test_a_model_says_whether_it_speaks_the_toy_language(
    tmp_path: Path, toy_data: Path, small: Callable[..., Recipe], toy: int
) -> None:
    recipe = small(f"data.toy={toy}", "data.train=['a']", "data.dev=['b']")
    loop.open_run(recipe, manifest(toy_data), toy_data, tmp_path / "run")
    model = checkpoint.write_model(tmp_path / "run", {"model.weight": torch.zeros(2)}, {})
    assert Folder.open(model).about["toy"] is bool(toy)

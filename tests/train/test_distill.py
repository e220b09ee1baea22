"""A prepared folder and a text, translated by a teacher."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from bethink.cli import main
from bethink.errors import DataError, ModelError, UsageError
from bethink.folder import WEIGHTS, create
from bethink.model.config import ModelConfig
from bethink.model.weights import unique_tensors
from bethink.text import EOS, load_vocabulary
from bethink.train.data import Corpus, manifest
from bethink.train.distill import Teacher, distill_data, distill_text
from bethink.train.generate import Search
from bethink.train.loop import train
from bethink.train.prepare import prepare
from bethink.train.recipe import Recipe
from bethink.translator import Translator
from tests.models import SMALL, random_model


@pytest.fixture(scope="module")
def teacher(toy_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Teacher:
    """An untrained model whose translations end, because the end of a sentence is likelier than other tokens."""
    about, path = manifest(toy_data), tmp_path_factory.mktemp("teacher")
    words = {
        side: load_vocabulary(toy_data / about[side]["file"], about[side]["kind"]) for side in ("source", "target")
    }
    config = ModelConfig(len(words["source"]), len(words["target"]), **SMALL, share="target", causal=False)
    model = random_model(config, seed=1)
    with torch.no_grad():
        model.target_embedding.weight[EOS] *= 3
    save_file(unique_tensors(model), path / WEIGHTS)
    about = {"name": "teacher", "policy": "offline", "about": {}}
    create(path, model=config, vocabularies=words, files=[WEIGHTS], **about)
    return Teacher(path, Search(), "cpu")


def test_the_student_s_data_has_the_teacher_s_targets(teacher: Teacher, toy_data: Path, tmp_path: Path) -> None:
    counts = distill_data(teacher, toy_data, tmp_path / "new")
    before, after = Corpus(toy_data, "train"), Corpus(tmp_path / "new", "train")
    assert counts["train pairs"] == len(after) == len(before) - counts["left out"] > 0
    told = manifest(tmp_path / "new")
    assert told["distilled"]["teacher"] == teacher.folder.name
    assert told["fingerprint"] != manifest(toy_data)["fingerprint"]
    assert all(after.target.ids[after.target.offsets[1:] - 1] == EOS)
    assert after.target.ids[:100].tolist() != before.target.ids[:100].tolist()
    assert (tmp_path / "new" / "dev.source.txt").read_bytes() == (toy_data / "dev.source.txt").read_bytes()


def test_a_student_can_be_trained_on_it(
    teacher: Teacher, toy_data: Path, tmp_path: Path, small: Callable[..., Recipe]
) -> None:
    distill_data(teacher, toy_data, tmp_path / "new", keep=True)
    assert len(Corpus(tmp_path / "new", "train")) > len(Corpus(toy_data, "train"))
    assert train(small(), tmp_path / "new", tmp_path / "run", None, "cpu").is_dir()


def test_text_of_the_source_language_can_be_added(teacher: Teacher, toy_data: Path, tmp_path: Path) -> None:
    lines = (toy_data / "dev.source.txt").read_text().splitlines()[:7]
    (tmp_path / "text").write_text("\n".join(["", *lines]) + "\n")
    counts = distill_data(teacher, toy_data, tmp_path / "new", also=tmp_path / "text")
    assert counts["train pairs"] + counts["left out"] == len(Corpus(toy_data, "train")) + 7


def test_pairs_that_are_kept_keep_their_alignment(teacher: Teacher, toy_data: Path, tmp_path: Path) -> None:
    data = tmp_path / "aligned"
    shutil.copytree(toy_data, data)
    links = np.arange(len(Corpus(data, "train").source.ids)).astype(np.uint16)
    np.save(data / "train.source.links.npy", links)
    distill_data(teacher, data, tmp_path / "new", keep=True)
    found = Corpus(tmp_path / "new", "train").source.links
    assert found is not None
    assert found[: len(links)].tolist() == links.tolist()
    assert not found[len(links) :].any()
    distill_data(teacher, data, tmp_path / "without")
    assert Corpus(tmp_path / "without", "train").source.links is None


def test_a_text_is_translated_line_by_line(teacher: Teacher, toy_data: Path, tmp_path: Path) -> None:
    lines = (toy_data / "dev.source.txt").read_text().splitlines()[:5]
    (tmp_path / "text").write_text("\n".join([*lines, ""]) + "\n")
    written = distill_text(teacher, tmp_path / "text", tmp_path / "out")
    translations = (tmp_path / "out").read_text().split("\n")[:-1]
    assert len(translations) == 6
    assert translations[5] == ""
    assert written == sum(map(bool, translations))
    translator = Translator(teacher.folder.path)
    for line, translation in zip(lines, translations, strict=False):
        assert translation in (translator.translate(line), "")


def test_mistakes_get_one_sentence(teacher: Teacher, toy_data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(DataError, match="has no text to translate"):
        distill_text(teacher, tmp_path / "empty", tmp_path / "out")
    (tmp_path / "there").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        distill_data(teacher, toy_data, tmp_path / "there")
    with pytest.raises(ModelError, match="has no weights for torch"):
        Teacher(Path("toy"), Search())


def test_data_of_another_vocabulary_are_refused(teacher: Teacher, tmp_path: Path) -> None:
    other = prepare(Recipe.load("tiny", ["data.toy=150", "text.size=90"]), tmp_path, tmp_path / "other")
    with pytest.raises(DataError, match="different source vocabularies; prepare the data again with"):
        distill_data(teacher, other, tmp_path / "new")


def test_on_the_command_line(
    teacher: Teacher, toy_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = str(teacher.folder.path)
    assert (
        main(["distill", at, "--data", str(toy_data), "--to", str(tmp_path / "new"), "--beam", "2", "--view", "2"]) == 0
    )
    told = capsys.readouterr()
    assert told.out.strip() == str(tmp_path / "new")
    assert "training pairs" in told.err
    assert main(["distill", at, "--source", "text", "--keep", "--to", "out"]) == 2

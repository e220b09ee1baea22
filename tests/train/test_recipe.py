from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bethink.errors import TrainingError, UsageError
from bethink.train.recipe import RECIPES, SYSTEMS, Recipe, available, differences


@pytest.mark.parametrize("name", available())
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_recipe_trains_every_system(name: str, system: str) -> None:
    recipe = Recipe.load(name, [f"system={system}"])
    assert recipe.name == name
    assert recipe.about
    assert recipe.paths.kind == SYSTEMS[system].path
    assert (recipe.model.capsules is not None) == SYSTEMS[system].capsules
    assert recipe.model.causal == SYSTEMS[system].causal


def test_the_promised_recipes_are_there() -> None:
    ours, papers = {"tiny", "de-en", "de-en-live", "en-de", "en-vi"}, {"iwslt15-en-vi", "iwslt14-en-de", "wmt15-de-en"}
    assert ours | papers <= set(available())


def test_whoever_lacks_the_corpora_is_told_where_they_come_from() -> None:
    for recipe in map(Recipe.load, available()):
        assert recipe.data.toy or "http" in recipe.data.origin


def test_changes_are_typed_like_toml_and_quotes_can_be_left_out() -> None:
    recipe = Recipe.load("tiny", ["train.updates=5", "train.rate=1", "data.train=['a', 'b']", "train.schedule=cosine"])
    assert (recipe.train.updates, recipe.train.rate, recipe.data.train) == (5, 1.0, ("a", "b"))
    assert isinstance(recipe.train.rate, float)
    assert recipe.train.schedule == "cosine"


def test_settings_for_a_system_count_only_for_it_and_yield_to_the_command_line() -> None:
    plain, ped = Recipe.load("tiny"), Recipe.load("tiny", ["system=ped"])
    assert plain.train.updates != ped.train.updates
    assert Recipe.load("tiny", ["system=ped", "train.updates=7"]).train.updates == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("train.update=5", "Did you mean 'updates'"),
        ("trian.updates=5", "Did you mean 'train'"),
        ("updates=5", "no setting or section named 'updates'; did you mean train.updates?"),
        ("width=5", "did you mean model.width or model.capsules.width?"),
        ("kind=words", "did you mean text.kind?"),
        ("train.updates=many", "train.updates is 'many', but must be a whole number"),
        ("train.updates=1.5", "must be a whole number"),
        ("train.updates=true", "must be a whole number"),
        ("train.updates=0", "at least 1"),
        ("train.compile=1", "must be true or false"),
        ("train.rate=fast", "must be a number"),
        ("train.schedule=cosin", "Did you mean 'cosine'"),
        ("train=5", "must be a table"),
        ("data.train=europarl", "must be a list of names"),
        ("train.average=50", "train.keep"),
        ("system=pedd", "Did you mean 'ped'"),
        ("paths.kind=offline", "follows from system"),
        ("model.causal=false", "follows from system"),
        ("model.source_vocabulary=5", "follows from the prepared data"),
        ("model.capsules.size=5", "model.capsules"),
        ("model.share=all", "text.joint"),
        ("data.toy=0", "names no corpora"),
        ("train.updates", "write key=value"),
        ("model.heads=0", "model.heads is 0"),
        ("model.heads=-2", "model.heads is -2"),
        ("model.width=0", "model.width is 0"),
        ("model.width=2", "model.width is 2"),
        ("model.hidden=-1", "model.hidden is -1"),
        ("model.dropout=2", "model.dropout is 2.0"),
        ("model.encoder_layers=0", "model.encoder_layers is 0"),
        ("model.capsules=3", "model.capsules is 3, but must be a table"),
        ("model.capsules.width=-3", "model.capsules.width is -3"),
        ("model.capsules.iterations=0", "model.capsules.iterations is 0"),
        ("model.capsules.translated=0", "model.capsules.translated is 0"),
        ("train.rate=nan", "train.rate is nan"),
        ("train.rate=-1", "train.rate is -1.0, but must be a number of at least 0"),
        ("train.rate=1" + "0" * 400, "must be a number"),
        ("train.clip=inf", "train.clip is inf"),
        ("train.seed=-1", "train.seed is -1, but must be a number of at least 0"),
        ("train.seed=9223372036854775808", r"below 2\^63"),
        ("train.warmup=-5", "train.warmup is -5"),
        ("data.asr_like=10", "data.asr_like is 10.0, but is a share, at most 1"),
        ("data.most=['train']", "data.most has 'train', but must have names with numbers"),
        ("data.most=['other 5']", "data.most names 'other', which is not among data.train"),
        ("losses.smoothing=7", "losses.smoothing is 7.0, but must be below 1"),
        ("paths.k=0", "paths.k is 0, but must be a number of at least 1"),
        ("paths.r=0", "paths.r is 0"),
        ("paths.unit=words", "Did you mean 'word'"),
        ("paths.sampling=release", "Did you mean 'released'"),
        ("losses.segment=-1", "losses.segment is -1.0"),
        ("losses.token=nan", "losses.token is nan"),
        ("data.longest=0", "data.longest is 0"),
        ("data.longest=1021", "at most 1020 tokens"),
        ("data.toy=-1", "data.toy is -1"),
        ("text.sample=0", "text.sample is 0"),
        ("system=[]", "system is [], but must be text"),
    ],
)
def test_a_wrong_change_is_one_sentence(change: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("[", r"\[").replace("?", r"\?")):
        Recipe.load("tiny", [change])


@pytest.mark.parametrize(
    ("name", "changes", "unit", "policy"),
    [
        ("de-en", [], "word", "wait-k:k=3,rate=1.0,unit=word"),
        ("de-en", ["paths.unit=token"], "token", "wait-k:k=3,rate=1.0"),
        ("de-en", ["policy=wait-k:5"], "word", "wait-k:k=5,rate=1.0"),  # as it is written
        ("de-en", ["system=offline"], "word", "offline"),
        ("wmt15-de-en", [], "token", "wait-k:k=3,rate=1.0"),
        ("tiny", [], "word", "wait-k:k=3,rate=1.0"),  # where every token is a word, they are the same
    ],
)
def test_new_models_count_words_and_those_of_the_paper_tokens(
    name: str, changes: list[str], unit: str, policy: str
) -> None:
    recipe = Recipe.load(name, changes)
    assert (recipe.paths.unit, recipe.policy) == (unit, policy)


def test_recipes_are_found_by_name_and_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text((RECIPES / "tiny.toml").read_text())
    assert Recipe.load(path).name == "mine"
    with pytest.raises(UsageError, match="Did you mean 'tiny'"):
        Recipe.load("tini")
    with pytest.raises(UsageError, match="no recipe file"):
        Recipe.load(tmp_path / "other.toml")
    path.write_text("about = ")
    with pytest.raises(UsageError, match="not valid TOML"):
        Recipe.load(path)


@pytest.mark.parametrize("system", ["multi-path", "ped"])
def test_a_resolved_recipe_comes_back_from_json(tmp_path: Path, system: str) -> None:
    recipe = Recipe.load("tiny", [f"system={system}"])
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(recipe.to_dict()))
    assert Recipe.read(path) == recipe


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("for = 3", "for is 3, but must be a table"),
        ("for.ped = 3", "for.ped is 3, but must be a table"),
        ("for.pedd.train = {}", "Did you mean 'ped'"),
        ("system = []", r"system is \[\], but must be text"),
        ("model = 3", "model is 3, but must be a table"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"{line}\n")
    with pytest.raises(UsageError, match=message):
        Recipe.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.pop("train"),
        lambda values: values.update(model=3),
        lambda values: values.update(losses=[]),
        lambda values: values.update(system="pedd"),
        lambda values: values.update(system=[]),
        lambda values: values.update(unheard_of=1),
        lambda values: values["model"]["capsules"].update(width="x"),
        lambda values: values["train"].update(rate="fast"),
    ],
)
def test_a_damaged_recipe_of_a_run_is_one_sentence(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    values = Recipe.load("tiny", ["system=ped"]).to_dict()
    change(values)
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(values))
    with pytest.raises(TrainingError, match=r"recipe\.json is damaged: "):
        Recipe.read(path)
    path.write_text("{")
    with pytest.raises(TrainingError, match=r"recipe\.json is damaged: it is not JSON"):
        Recipe.read(path)


def test_differences_name_the_settings() -> None:
    old, new = (Recipe.load("tiny", [f"train.seed={seed}"]).to_dict() for seed in (1, 2))
    assert differences(old, new) == ["train.seed: 1 → 2"]
    assert differences(old, old) == []


def test_the_aligned_system_brings_its_settings_and_recipes_may_change_them() -> None:
    recipe = Recipe.load("tiny", ["system=aligned"])
    assert (recipe.paths.kind, recipe.losses.degree, recipe.losses.token) == ("multi-path", 0.2, 0.0)
    assert Recipe.load("tiny", ["system=aligned", "losses.degree=0.1"]).losses.degree == 0.1
    assert Recipe.load("tiny", ["system=ped"]).losses.degree == 0
    with pytest.raises(UsageError, match="system=aligned"):
        Recipe.load("tiny", ["losses.degree=1"])

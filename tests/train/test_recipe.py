from __future__ import annotations

from pathlib import Path

import pytest

from bethink.errors import UsageError
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
    assert {"tiny", "de-en", "iwslt15-en-vi", "iwslt14-en-de", "wmt15-de-en"} <= set(available())


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
    ],
)
def test_a_wrong_change_is_one_sentence(change: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("[", r"\[")):
        Recipe.load("tiny", [change])


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
    import json

    recipe = Recipe.load("tiny", [f"system={system}"])
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(recipe.to_dict()))
    assert Recipe.read(path) == recipe


def test_differences_name_the_settings() -> None:
    old, new = (Recipe.load("tiny", [f"train.seed={seed}"]).to_dict() for seed in (1, 2))
    assert differences(old, new) == ["train.seed: 1 → 2"]
    assert differences(old, old) == []

"""Words from end to end: a word-final vocabulary, training along word paths, an int8 model that reads, decides on and shows words."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

from rich.console import Console

from bethink import toy
from bethink.export import export
from bethink.policy import Action
from bethink.train.loop import train
from bethink.train.prepare import prepare
from bethink.train.recipe import Recipe
from bethink.translator import Translator
from tests.train.conftest import SMALL

WORDS = ("data.source=de", "data.target=en", "data.train=['train']", "data.dev=['dev']", "text.kind=word-final")


def test_a_model_that_knows_words(tmp_path: Path) -> None:
    for part, seed in (("train", 1), ("dev", 2)):
        pairs = list(toy.sentences(300, seed))
        for side, texts in (("de", [p.source for p in pairs]), ("en", [p.target for p in pairs])):
            (tmp_path / f"{part}.{side}").write_text("".join(f"{text.replace(' .', '.')}\n" for text in texts), "utf-8")
    settings = [*SMALL, "data.toy=0", *WORDS, "text.size=400", "paths.unit=word", "system=ped"]
    recipe = Recipe.load("tiny", settings)
    data = prepare(recipe, tmp_path, tmp_path / "data", Console(file=io.StringIO()))
    run = train(recipe, data, tmp_path / "run")
    export(run, tmp_path / "small", precision="int8", name="small")
    translator = Translator(tmp_path / "small")
    assert translator.counts_words
    text = (tmp_path / "dev.de").read_text("utf-8").splitlines()[0]
    for policy in ("wait-k:2,unit=word", "weigh:k=1,unit=word", "pe:k=1,rho=0.01,unit=word"):
        steps = [step for step in translator.stream([f"{text}\n"], policy) if step.action is Action.WRITE]
        shown = "".join(step.text for step in steps)
        assert shown == translator.target.decode([step.token for step in steps])
        for before, step in itertools.pairwise(steps):
            inside = not translator.target.closes_word(before.token)
            assert not inside or step.reason.code in ("word_begun", "source_complete", "length_limit")

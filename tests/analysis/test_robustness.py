"""Noise that is what it says, and what must never happen counted."""

from __future__ import annotations

import random

import pytest

from bethink.analysis.robustness import NOISES, is_endless, repeats, robustness, sheets
from bethink.errors import DataError
from bethink.evaluate.instances import Instance
from bethink.policy import WaitK
from tests.evaluate.made import FakeTranslator, golden_lines

PAIRS = [("Das ist, sagt er, gut!", "That is good, he says."), ("Na ja ...", "Well ...")] * 20


def noisy(name: str) -> list[tuple[str, str]]:
    return NOISES[name](PAIRS, random.Random(1), ("äh",))


@pytest.mark.parametrize("name", NOISES)
def test_noise_is_the_same_every_time(name: str) -> None:
    assert noisy(name) == noisy(name)
    assert noisy(name) != PAIRS


def test_each_kind_of_noise() -> None:
    assert noisy("no punctuation")[:2] == [("Das ist sagt er gut", PAIRS[0][1]), ("Na ja", PAIRS[1][1])]
    assert noisy("lower case")[0][0] == "das ist, sagt er, gut!"
    assert noisy("lower case, no punctuation")[0][0] == "das ist sagt er gut"
    assert [len(source.split()) for source, _ in noisy("typos")] == [len(source.split()) for source, _ in PAIRS]
    stuttered = noisy("repeated words")
    assert sum(len(source.split()) for source, _ in stuttered) > sum(len(source.split()) for source, _ in PAIRS)
    assert [reference for _, reference in stuttered] == [reference for _, reference in PAIRS]
    long = noisy("five sentences in one")
    assert len(long) == len(PAIRS) / 5
    assert long[0][1] == " ".join(reference for _, reference in PAIRS[:5])
    halting = [source for source, _ in noisy("hesitations")]
    assert any("äh" in source for source in halting)
    assert [source.replace("äh ", "") for source in halting] != [
        source for source, _ in PAIRS
    ]  # some words are said twice
    assert noisy("capitals")[0][0] == "DAS IST, SAGT ER, GUT!"
    run_on = noisy("five sentences in one, lower case, no punctuation")
    assert run_on[0][0].startswith("das ist sagt er gut na ja das ist")
    known = {word for pair in PAIRS for text in pair for word in text.split()}
    assert {word for source, _ in noisy("code-switching") for word in source.split()} <= known


def test_what_is_endless() -> None:
    assert repeats("a b c d d d d d".split())
    assert repeats("x a b a b a b a b a b".split())
    assert not repeats("a a a a b a".split())
    calm = Instance(0, "s", "r", "so so so so so", 5, (1,) * 5)
    assert is_endless(calm)
    assert not is_endless(Instance(0, "s", "ha ha ha ha ha", "ha ha ha ha ha", 5, (1,) * 5))
    assert is_endless(Instance(0, "s", "r", "a b", 5, (1, 1), path=(2,) * 60, source_tokens=3))


def test_losses_are_against_the_clean_text() -> None:
    sources, references = golden_lines("source.txt"), golden_lines("reference.txt")
    translator = Anything(sources, references)
    found = robustness(translator, list(zip(sources, references, strict=True)), [WaitK(2)])  # type: ignore[arg-type]
    clean, *others = found.outcomes
    assert [one.noise for one in others] == list(NOISES)
    assert max(one.BLEU for one in found.outcomes) == clean.BLEU
    assert others[-1].empty > 0  # it says nothing to what it does not know
    [table] = sheets(found)
    assert table.rows[0][3] == ""
    assert table.rows[-1][3] == f"{others[-1].BLEU - clean.BLEU:+.2f}"


class Anything(FakeTranslator):
    """Silent where it does not know the sentence."""

    def __init__(self, sources: list[str], references: list[str]) -> None:
        super().__init__(sources, references)
        self.known = Known(self.known)


class Known(dict[str, str]):
    def __missing__(self, sentence: str) -> str:
        return ""


def test_there_must_be_something_to_disturb() -> None:
    with pytest.raises(DataError, match="no sentences to disturb"):
        robustness(Anything([], []), [(" ", "x")], [WaitK(1)])  # type: ignore[arg-type]

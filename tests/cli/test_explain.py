"""`bethink explain` in the terminal: what each word translates, under policies that look ahead and those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bethink.cli import main
from bethink.cli.explain import attended, translated
from bethink.cli.words import tell
from bethink.policy import Action
from bethink.text import Words
from bethink.trace import Step, Translation


def write(read: int, written: int, degrees: tuple[float, ...], gain: tuple[float, ...] = (), token: int = 4) -> Step:
    return Step(Action.WRITE, token, read, read, written, 0, 0.5, (), degrees, gain)


def risen(*writes: Step) -> list[tuple[str, float]]:
    """What the first of these translates, in a sentence of two words; the second word has two tokens."""
    return translated(Translation(("haus", "baum"), (1, 2), writes), writes[:1])


def test_a_word_that_looked_ahead_translates_what_its_gain_says() -> None:
    looked = write(3, 1, (0.1, 0.1, 0.1), (0.5, 0.02, 0.3))
    end = write(4, 2, (0.9, 0.9, 0.9, 0.9), token=1)
    assert risen(looked, end) == [("haus", pytest.approx(0.5)), ("baum", pytest.approx(0.3))]


def test_another_translates_what_the_next_word_finds() -> None:
    """Small rises, and those less than half of the largest, are not shown; the end of the sentence is no word."""
    first = write(3, 1, (0.1, 0.1, 0.1))
    assert risen(first, write(4, 2, (0.15, 0.2, 0.7, 0.9))) == [("baum", pytest.approx(0.6))]
    assert risen(first, write(3, 2, (0.12, 0.1, 0.1))) == []


def test_attention_is_the_mean_over_the_tokens_of_a_word() -> None:
    """The tokens of a source word are added up; words with less than half of the most are not shown."""
    steps = [
        Step(Action.WRITE, 4, 4, 2, n, attention=shares)
        for n, shares in ((1, (0.5, 0.1, 0.2)), (2, (0.7, 0.1, 0.0, 0.2)))
    ]
    sentence = Translation(("haus", "baum"), (1, 2), tuple(steps))
    assert attended(sentence, steps) == [("haus", pytest.approx(0.6))]
    assert attended(sentence, steps[:1]) == [("haus", pytest.approx(0.5)), ("baum", pytest.approx(0.3))]


def test_without_degrees_there_is_nothing_to_show() -> None:
    assert risen(write(1, 1, ()), write(2, 2, ())) == []


def test_tokens_of_a_word_belong_together() -> None:
    words = Words(["a", "b", ","])
    steps = [write(1, n + 1, (), token=token) for n, token in enumerate((3, 5, 4, 1))]
    assert [[step.token for step in word.steps] for word in tell(words, steps)] == [[3, 5], [4]]


@pytest.mark.parametrize("policy", ["wait-k:k=2", "pe:k=1,rho=0.1,r=2", "offline"])
def test_the_terminal_shows_it(
    policy: str, model: Path, sentences: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", sentences[0], "--model", str(model), "--policy", policy]) == 0
    printed = capsys.readouterr().out
    for heading in ("newly heard", "wrote", "because", "now translated", "sure", "put off"):
        assert heading in printed


def test_a_judge_is_shown_where_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    for policy in ("weigh:k=2", "wait-k:3"):
        assert main(["explain", "Guten Morgen!", "--model", "de-en", "--policy", policy]) == 0
        assert "stays right" in capsys.readouterr().out

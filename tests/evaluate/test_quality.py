"""BLEU and chrF are sacrebleu's, in the profile that their signature names."""

from __future__ import annotations

import sys

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from bethink.errors import DataError, MissingExtra, UsageError
from bethink.evaluate import quality
from tests.evaluate.made import golden_lines

REFERENCES = golden_lines("reference.txt")
PREDICTIONS = [line.replace("the ", "a ", 1).replace("My", "my") for line in REFERENCES]


def bleu(predictions: list[str], references: list[str], profile: str = "standard") -> quality.Quality:
    return quality.score(predictions, references)[profile]["BLEU"]


def test_standard_bleu_is_sacrebleu_13a_cased() -> None:
    direct = BLEU().corpus_score(PREDICTIONS, [REFERENCES]).score
    found = bleu(PREDICTIONS, REFERENCES)
    assert found.score == direct
    assert "case:mixed" in found.signature
    assert "tok:13a" in found.signature


def test_paper_bleu_is_lower_cased_and_takes_the_text_as_given() -> None:
    direct = BLEU(lowercase=True, tokenize="none", force=True).corpus_score(PREDICTIONS, [REFERENCES]).score
    found = bleu(PREDICTIONS, REFERENCES, "paper")
    assert found.score == direct
    assert found.score > bleu(PREDICTIONS, REFERENCES).score
    assert "case:lc" in found.signature
    assert "tok:none" in found.signature


def test_chrf() -> None:
    assert (
        quality.score(PREDICTIONS, REFERENCES)["standard"]["chrF"].score
        == CHRF().corpus_score(PREDICTIONS, [REFERENCES]).score
    )


def test_every_profile_is_scored_at_once() -> None:
    scores = quality.score(PREDICTIONS, REFERENCES)
    assert {profile: tuple(measures) for profile, measures in scores.items()} == quality.PROFILES
    assert scores["paper"]["BLEU"] == bleu(PREDICTIONS, REFERENCES, "paper")


def test_a_clearly_better_system_is_significant_and_the_same_one_is_not() -> None:
    worse = [" ".join(line.split()[::2]) for line in PREDICTIONS]
    systems = {"base": PREDICTIONS, "worse": worse, "same": list(PREDICTIONS)}
    base, bad, same = quality.compare(systems, REFERENCES, samples=200)
    assert base.system == "base"
    assert base.p_value is None
    assert base.interval > 0
    assert base.score == bleu(PREDICTIONS, REFERENCES).score
    assert bad.p_value is not None
    assert bad.p_value < 0.05
    assert bad.mean + bad.interval < base.mean
    assert same.p_value is not None
    assert same.p_value > 0.5
    assert quality.compare(systems, REFERENCES, samples=200) == [base, bad, same]


def test_errors_are_sentences() -> None:
    with pytest.raises(DataError, match="2 translations but 1 references"):
        bleu(["a", "b"], ["a"])
    with pytest.raises(DataError, match="no references"):
        bleu([], [])
    with pytest.raises(UsageError, match="Did you mean 'standard'"):
        quality.metric("BLEU", "standart")
    with pytest.raises(UsageError, match="no measure in profile paper named 'chrF'"):
        quality.compare({"a": ["x"], "b": ["x"]}, ["x"], measure="chrF", profile="paper")
    with pytest.raises(DataError, match="at least one more"):
        quality.compare({"a": ["x"]}, ["x"])


def test_without_sacrebleu_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(MissingExtra, match="needs the 'train' extra"):
        bleu(["a"], ["a"])
